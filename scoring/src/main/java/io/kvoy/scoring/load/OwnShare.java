// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

/**
 * What we had on a worker ourselves while its gauges were read.
 *
 * @param inFlight requests of ours, the most during the scrape
 * @param prefilling requests of ours whose first token was owed
 * @param queuedRoomTokens {@link WorkerLoad#queuedRoomTokens()}
 * @param roomTokens {@link WorkerLoad#roomTokens()}
 */
public record OwnShare(int inFlight, int prefilling, long queuedRoomTokens, long roomTokens) {
  /** Nothing of ours. */
  public static final OwnShare NONE = new OwnShare(0, 0, 0, 0);

  /** As the ledger has it at this moment. */
  public static OwnShare of(WorkerLoad load) {
    return new OwnShare(
        load.inFlight(), load.prefilling(), load.queuedRoomTokens(), load.roomTokens());
  }

  /** The same with the larger number of requests of two moments. */
  OwnShare withAtLeast(int requests) {
    return new OwnShare(Math.max(inFlight, requests), prefilling, queuedRoomTokens, roomTokens);
  }
}
