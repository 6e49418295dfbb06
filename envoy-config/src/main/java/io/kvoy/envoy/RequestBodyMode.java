// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/** How Envoy hands request bodies to Kvoy. */
public enum RequestBodyMode {
  /**
   * Chunk by chunk in both directions, any size, with Kvoy's answer held back until it has decided.
   * Costs an echo of the whole body, fails open only where Envoy has noticed before that Kvoy is
   * down, and cannot be combined with retries (Envoy 1.40 doubles the body before trailers).
   */
  FULL_DUPLEX_STREAMED,
  /**
   * Whole, after the headers were answered. The default: an unchanged body is not sent back, and
   * when Kvoy fails in the middle the request is served with its whole body. Bodies above {@link
   * EnvoyBootstrap#bufferedBodyLimitBytes} get 413 from Envoy.
   */
  BUFFERED,
  /** As BUFFERED, but of a larger body only the beginning, which then cannot be read. */
  BUFFERED_PARTIAL,
  /**
   * Chunk by chunk after the headers were answered: Kvoy decides before it has seen the prompt, by
   * load alone. For gateways that offer nothing better.
   */
  STREAMED,
  /** Not at all: by load alone. For paths without prompts. */
  NONE
}
