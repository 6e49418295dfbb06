// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Arguments of a call, positional ones first. Not modified once made. */
record Args(List<Object> positional, Map<String, Object> keywords) {
  static final Args NONE = new Args(List.of(), Map.of());

  static Args of(Object... positional) {
    return new Args(List.of(positional), Map.of());
  }

  boolean isEmpty() {
    return positional.isEmpty() && keywords.isEmpty();
  }

  int count() {
    return positional.size();
  }

  /** These arguments without the first positional one. */
  Args tail() {
    return new Args(positional.subList(1, positional.size()), keywords);
  }

  /**
   * One slot per parameter name, null where nothing was given; fails as Python does on too many,
   * unknown or doubled arguments, and on fewer than {@code required}.
   */
  @Nullable Object[] bind(int required, String... names) {
    if (positional.size() > names.length) {
      throw TemplateError.type();
    }
    @Nullable Object[] bound = new @Nullable Object[names.length];
    for (int i = 0; i < positional.size(); i++) {
      bound[i] = positional.get(i);
    }
    if (!keywords.isEmpty()) {
      List<String> known = List.of(names);
      for (Map.Entry<String, Object> keyword : keywords.entrySet()) {
        int index = known.indexOf(keyword.getKey());
        if (index < 0 || bound[index] != null) {
          throw TemplateError.type();
        }
        bound[index] = keyword.getValue();
      }
    }
    for (int i = 0; i < required; i++) {
      if (bound[i] == null) {
        throw TemplateError.type();
      }
    }
    return bound;
  }

  /** The positional arguments; fails when there are keywords or a count outside of the range. */
  List<Object> positional(int min, int max) {
    if (!keywords.isEmpty() || positional.size() < min || positional.size() > max) {
      throw TemplateError.type();
    }
    return positional;
  }

  Args withKeyword(String name, Object value) {
    Map<String, Object> all = new LinkedHashMap<>(keywords);
    if (all.put(name, value) != null) {
      throw TemplateError.type();
    }
    return new Args(positional, all);
  }

  /** For building call arguments piece by piece. */
  static Args copy(ArrayList<Object> positional, Map<String, Object> keywords) {
    return new Args(
        Collections.unmodifiableList(positional),
        keywords.isEmpty() ? Map.of() : Collections.unmodifiableMap(keywords));
  }
}
