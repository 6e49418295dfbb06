// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/** How Envoy hands request bodies to Kvoy. */
public enum RequestBodyMode {
  /**
   * Chunk by chunk in both directions, any size, with Kvoy's answer held back until it has decided.
   * The default.
   */
  FULL_DUPLEX_STREAMED,
  /**
   * Whole, after the headers were answered. Bodies above {@link
   * EnvoyBootstrap#bufferedBodyLimitBytes} get 413 from Envoy.
   */
  BUFFERED
}
