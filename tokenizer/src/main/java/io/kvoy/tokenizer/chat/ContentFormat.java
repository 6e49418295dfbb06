// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

/** How a message's content reaches the template (vLLM's {@code --chat-template-content-format}). */
public enum ContentFormat {
  /** As one text, parts joined with a line feed. */
  STRING,
  /** As a list of parts, {@code {"type":"text","text":…}}. */
  OPENAI
}
