// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/** What Kvoy sees of a response. Response headers come in each mode. */
public enum ResponseBodyMode {
  /**
   * Every chunk passes through Kvoy: first token, usage and end are seen as they happen. The
   * default.
   */
  FULL_DUPLEX_STREAMED,
  /** As above in the older mode, one answer to each chunk; for gateways without the newer one. */
  STREAMED,
  /** Nothing: cheapest, but the time to the first token is not learnt from the stream. */
  NONE
}
