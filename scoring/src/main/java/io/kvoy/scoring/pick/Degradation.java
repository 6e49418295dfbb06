// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

/** What a pick had to do without; each is counted and shown with the decision. */
public enum Degradation {
  /** Prompt length unknown: by load only. */
  NO_TOKENS("no-tokens"),
  /** Prompt length guessed from bytes. */
  ESTIMATED_TOKENS("estimated-tokens"),
  /** No KV events: caches remembered from our own routing. */
  NO_CACHE_EVENTS("no-cache-events"),
  /** Nothing known of caches: all candidates count as cold. */
  NO_CACHE_KNOWLEDGE("no-cache-knowledge"),
  /** Gauges of some candidates unknown: they count as no better than the best known one. */
  SOME_GAUGES_UNKNOWN("some-gauges-unknown"),
  /** Gauges of no candidate known: our own work in flight only. */
  NO_GAUGES("no-gauges"),
  /** Ends of requests are not reported: gauges only. */
  LEDGER_BLIND("ledger-blind"),
  /** Neither gauges nor ledger: round robin. */
  ROUND_ROBIN("round-robin"),
  /** All candidates that are alive were ejected: ejection ignored. */
  ALL_EJECTED("all-ejected"),
  /** All candidates said a moment ago that they have no room. */
  ALL_HELD_OFF("all-held-off");

  private final String label;

  Degradation(String label) {
    this.label = label;
  }

  /** Word for headers, metrics and tables. */
  public String label() {
    return label;
  }
}
