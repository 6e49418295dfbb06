// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/**
 * How well we know what a worker's cache holds.
 *
 * <table>
 *   <caption>Transitions</caption>
 *   <tr><th>from</th><th>to</th><th>when</th></tr>
 *   <tr><td>Syncing</td><td>Live</td><td>replay from 0 complete, or the first message has sequence 0</td></tr>
 *   <tr><td>Syncing</td><td>Partial</td><td>no replay endpoint, no answer, or the ring had wrapped</td></tr>
 *   <tr><td>Live, Partial</td><td>Gapped</td><td>a sequence was skipped and a replay is asked for</td></tr>
 *   <tr><td>Gapped</td><td>Live, Partial</td><td>replay brought what was missing (as before); it did not (Partial, view emptied)</td></tr>
 *   <tr><td>Live, Partial, Gapped</td><td>Syncing, Live</td><td>restart of the publisher; the view is emptied</td></tr>
 *   <tr><td>Partial</td><td>Live</td><td>the worker says that its cache was emptied</td></tr>
 *   <tr><td>any</td><td>Silent</td><td>nothing heard for a while although the worker has requests</td></tr>
 *   <tr><td>Silent</td><td>Syncing, Live, ...</td><td>heard again; the sequence decides</td></tr>
 *   <tr><td>any</td><td>Dead</td><td>the worker left the fleet; final</td></tr>
 * </table>
 */
public enum KvViewState {
  /** No view yet, or an emptied one, and a replay under way; what is known is true but not all. */
  SYNCING(Trust.PARTIAL),
  /** Everything since the publisher's start is known. */
  LIVE(Trust.FULL),
  /** Older blocks were never learned; what is known is true but not all. */
  PARTIAL(Trust.PARTIAL),
  /** Messages are missing and asked for; blocks may be gone. */
  GAPPED(Trust.PARTIAL),
  /** Nothing heard although something should be; matches are ignored. */
  SILENT(Trust.NONE),
  /** The worker publishes no events; only what we routed to it is known. */
  BLIND(Trust.NONE),
  /**
   * The worker's events are followed, but they show that its prompts have other blocks than we
   * compute ({@link OwnKeyCheck}); matches are ignored.
   */
  MISMATCHED(Trust.NONE),
  /** The worker's life is over; matches are ignored. */
  DEAD(Trust.NONE);

  private final Trust trust;

  KvViewState(Trust trust) {
    this.trust = trust;
  }

  /** What a match in this state is worth. */
  public Trust trust() {
    return trust;
  }

  /** What a match is worth. */
  public enum Trust {
    /** Ignored: look-ups report no match. */
    NONE,
    /** Used; the worker may hold more, or in {@link #GAPPED} a little less. */
    PARTIAL,
    /** Used. */
    FULL
  }
}
