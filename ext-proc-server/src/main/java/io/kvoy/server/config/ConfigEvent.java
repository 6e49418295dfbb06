// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.List;

/** What a change of the configuration file led to. */
public sealed interface ConfigEvent {

  /**
   * The file is right and is in force as a whole.
   *
   * @param previous what was in force before
   * @param current what is in force from here on
   * @param waitingForRestart changed fields that take effect only at the next start, such as {@code
   *     KvoyConfig.spec.listen.extProc}
   */
  record Reloaded(KvoyConfigFile previous, KvoyConfigFile current, List<String> waitingForRestart)
      implements ConfigEvent {
    public Reloaded {
      waitingForRestart = List.copyOf(waitingForRestart);
    }
  }

  /**
   * The file is wrong; what was in force stays in force.
   *
   * @param inForce the last right file
   * @param problems why the present one is refused
   */
  record ReloadRejected(KvoyConfigFile inForce, List<ConfigProblem> problems)
      implements ConfigEvent {
    public ReloadRejected {
      problems = List.copyOf(problems);
    }
  }
}
