// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/** How Kvoy learns what became of a request. */
public enum ResponseBodyMode {
  /**
   * Every chunk passes through Kvoy and back, as the endpoint picker protocol demands. When Kvoy
   * dies its running answers are cut, also where Envoy fails open.
   */
  FULL_DUPLEX_STREAMED,
  /**
   * Every chunk passes through Kvoy, which says to each that it is well, or changes it: first
   * token, usage and end are seen as they happen. With buffered requests and fail-open the running
   * answers survive Kvoy's death. The default.
   */
  STREAMED,
  /** Kvoy gets a copy of every chunk, and the answer does not wait for Kvoy. */
  COPIED,
  /**
   * Kvoy sees nothing of the answer; Envoy's access log reports first token, end, status, who
   * served and usage, see {@link AnswerReports}. No cost per token in Kvoy.
   */
  REPORTED,
  /** Response headers and end only: the time to the first token is not learnt. */
  NONE
}
