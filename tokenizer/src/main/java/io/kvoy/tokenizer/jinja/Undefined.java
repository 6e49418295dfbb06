// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * A name or attribute that is not there. Prints as nothing, is false, has no items; anything else
 * done with it fails. All are equal to each other. {@code UNSAFE} stands for attributes that the
 * sandbox hides.
 */
enum Undefined {
  MISSING,
  UNSAFE;

  TemplateError error() {
    return this == UNSAFE ? TemplateError.security() : TemplateError.undefined();
  }
}
