// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

/** The inference APIs that Kvoy reads, named by the path that selects them. */
public enum ApiKind {
  /** OpenAI {@code POST /v1/chat/completions}. */
  CHAT_COMPLETIONS("/v1/chat/completions"),
  /** OpenAI {@code POST /v1/completions}. */
  COMPLETIONS("/v1/completions"),
  /** OpenAI {@code POST /v1/responses}. */
  RESPONSES("/v1/responses"),
  /** Anthropic {@code POST /v1/messages}. */
  MESSAGES("/v1/messages"),
  /** Anthropic {@code POST /v1/messages/count_tokens}; generates nothing. */
  COUNT_TOKENS("/v1/messages/count_tokens"),
  /** Any other path: forwarded untouched, picked by load alone. */
  OTHER("");

  private final String path;

  ApiKind(String path) {
    this.path = path;
  }

  /** Canonical path, empty for {@link #OTHER}. */
  public String path() {
    return path;
  }

  /**
   * Whether a request of this kind makes the worker run a prefill that its prefix cache can
   * shorten.
   */
  public boolean generates() {
    return this != OTHER && this != COUNT_TOKENS;
  }
}
