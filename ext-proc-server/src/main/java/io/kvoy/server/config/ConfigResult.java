// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.List;

/** What became of a configuration file: all of it or none of it. */
public sealed interface ConfigResult {

  /** The file is right. */
  record Loaded(KvoyConfigFile file) implements ConfigResult {}

  /**
   * The file is wrong, and these are all the reasons.
   *
   * @param problems at least one, in file order
   */
  record Rejected(List<ConfigProblem> problems) implements ConfigResult {
    public Rejected {
      problems = List.copyOf(problems);
      if (problems.isEmpty()) {
        throw new IllegalArgumentException("a rejection names at least one problem");
      }
    }

    /** One problem a line. */
    public String text() {
      return String.join("\n", problems.stream().map(ConfigProblem::message).toList());
    }
  }
}
