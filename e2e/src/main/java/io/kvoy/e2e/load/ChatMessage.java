// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

/** One message of a conversation. */
public record ChatMessage(String role, String content) {
  public static ChatMessage system(String content) {
    return new ChatMessage("system", content);
  }

  public static ChatMessage user(String content) {
    return new ChatMessage("user", content);
  }

  public static ChatMessage assistant(String content) {
    return new ChatMessage("assistant", content);
  }
}
