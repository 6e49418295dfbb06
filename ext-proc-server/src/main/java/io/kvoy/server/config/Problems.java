// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.server.config.ConfigProblem.Kind;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** Collects what is wrong with one file. One thread, one load. */
final class Problems {
  /**
   * A file that is wrong more often is another kind of file; the rest would only hide the start.
   */
  static final int MAX_LISTED = 100;

  private final List<ConfigProblem> found = new ArrayList<>();
  private int unlisted;

  void add(Kind kind, String what, String where, int line, int column, String advice) {
    if (found.size() < MAX_LISTED) {
      found.add(new ConfigProblem(kind, what, where, line, column, advice));
    } else {
      unlisted++;
    }
  }

  void add(Kind kind, String what, String where, YamlNode at, String advice) {
    add(kind, what, where, at.line(), at.column(), advice);
  }

  boolean isEmpty() {
    return found.isEmpty();
  }

  /** In the order of the file, those without a place last. */
  List<ConfigProblem> listed() {
    List<ConfigProblem> all = new ArrayList<>(found);
    all.sort(
        Comparator.comparingInt((ConfigProblem p) -> p.line() == 0 ? Integer.MAX_VALUE : p.line())
            .thenComparingInt(ConfigProblem::column));
    if (unlisted > 0) {
      all.add(
          new ConfigProblem(
              Kind.TOO_MANY, unlisted + " more problems", "the file", 0, 0, "fix these first"));
    }
    return all;
  }
}
