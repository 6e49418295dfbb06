// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.admin;

import java.util.List;

/** Whether traffic should come to this server. */
public sealed interface Readiness {

  /** It should. */
  enum Ready implements Readiness {
    READY
  }

  /**
   * It should not.
   *
   * @param missing what is awaited, in words for operators, such as {@code tokenizer of pool chat}
   */
  record NotReady(List<String> missing) implements Readiness {
    public NotReady {
      missing = List.copyOf(missing);
    }
  }
}
