// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

/**
 * What we had on a worker ourselves while its gauges were read.
 *
 * @param inFlight requests of ours, the most during the scrape
 * @param queuedPrefillTokens uncached tokens of ours whose first token was owed
 * @param prefilling requests of ours whose first token was owed
 * @param privateTokens {@link WorkerLoad#privateTokens()}
 */
public record OwnShare(int inFlight, long queuedPrefillTokens, int prefilling, long privateTokens) {
  /** Nothing of ours. */
  public static final OwnShare NONE = new OwnShare(0, 0, 0, 0);

  /** As the ledger has it at this moment. */
  public static OwnShare of(WorkerLoad load) {
    return new OwnShare(
        load.inFlight(), load.queuedPrefillTokens(), load.prefilling(), load.privateTokens());
  }

  /** The same with the larger number of requests of two moments. */
  OwnShare withAtLeast(int requests) {
    return new OwnShare(
        Math.max(inFlight, requests), queuedPrefillTokens, prefilling, privateTokens);
  }
}
