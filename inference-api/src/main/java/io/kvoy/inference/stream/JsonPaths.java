// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The few places of a JSON document that someone wants to hear about, as a tree that {@link
 * JsonScanner} walks along. Built once per kind of answer; not changed afterwards.
 */
final class JsonPaths<F extends Enum<F>> {
  private final List<byte[]> keys = new ArrayList<>();
  private final List<JsonPaths<F>> children = new ArrayList<>();
  private @Nullable JsonPaths<F> element;
  private @Nullable F field;

  /**
   * Adds a place.
   *
   * @param path keys joined by dots; {@code []} steps into every element of an array
   */
  JsonPaths<F> with(String path, F wanted) {
    JsonPaths<F> node = this;
    for (String step : path.replace("[]", ".[]").split("\\.", -1)) {
      node = step.equals("[]") ? node.elementNode() : node.childNode(step);
    }
    node.field = wanted;
    return this;
  }

  private JsonPaths<F> elementNode() {
    JsonPaths<F> node = element;
    if (node == null) {
      node = new JsonPaths<>();
      element = node;
    }
    return node;
  }

  private JsonPaths<F> childNode(String key) {
    byte[] bytes = key.getBytes(US_ASCII);
    JsonPaths<F> known = child(bytes, bytes.length);
    if (known != null) {
      return known;
    }
    JsonPaths<F> fresh = new JsonPaths<>();
    keys.add(bytes);
    children.add(fresh);
    return fresh;
  }

  /** What is known about the value of this key, null when nothing. */
  @Nullable JsonPaths<F> child(byte[] key, int length) {
    for (int i = 0; i < keys.size(); i++) {
      byte[] candidate = keys.get(i);
      if (candidate.length == length && Arrays.equals(candidate, 0, length, key, 0, length)) {
        return children.get(i);
      }
    }
    return null;
  }

  /** What is known about an array's elements, null when nothing. */
  @Nullable JsonPaths<F> element() {
    return element;
  }

  /** The name under which this place is wanted, null when it only leads to others. */
  @Nullable F field() {
    return field;
  }

  /** Whether anything below is wanted. */
  boolean leadsOn() {
    return element != null || !keys.isEmpty();
  }
}
