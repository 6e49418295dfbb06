// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

import java.util.List;

/**
 * User turns that are sent one after the other, each with everything said before.
 *
 * @param label what kind of prompt it is, for tables
 * @param system system prompt, empty for none
 * @param userTurns what the user says, at least one turn
 * @param maxTokens generated tokens per turn
 */
public record Conversation(String label, String system, List<String> userTurns, int maxTokens) {
  public Conversation {
    userTurns = List.copyOf(userTurns);
    if (userTurns.isEmpty()) {
      throw new IllegalArgumentException("a conversation needs at least one user turn");
    }
  }
}
