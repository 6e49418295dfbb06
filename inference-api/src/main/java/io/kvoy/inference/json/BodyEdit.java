// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;

/**
 * One wanted change of a top-level field. Repeated keys are treated as one field: all are changed
 * or removed.
 */
public sealed interface BodyEdit {

  /** The top-level field that it changes. */
  String field();

  /** Gives the field this value; added at the end of the object when absent. */
  record Put(String field, Json value) implements BodyEdit {}

  /** Takes the field away, if there. */
  record Remove(String field) implements BodyEdit {}

  /**
   * Gives a field of a nested object this value, keeping the nested object's other bytes. An absent
   * or null outer field, or one that is no object, becomes an object with this one field.
   */
  record PutNested(String field, String innerField, Json value) implements BodyEdit {}
}
