// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

/**
 * A worker's gauges, set against what we had on it ourselves at that moment, so that the rest is
 * the work of others (other replicas, clients that bypass us).
 *
 * @param gauges the page
 * @param foreignWaiting waiting requests that are not ours
 * @param foreignRunning running requests that are not ours
 * @param kvDemandTokens KV tokens in use plus what waiting requests of ours will need
 * @param ownRoomTokens {@link WorkerLoad#roomTokens()} at that moment; what has changed since then
 *     is on top of the demand
 * @param promptTokensPerSecond prompt tokens processed since the scrape before, unknown at first
 * @param prefixHitShare share of queried tokens found in the prefix cache since the scrape before
 */
public record ScrapedLoad(
    WorkerGauges gauges,
    double foreignWaiting,
    double foreignRunning,
    Reading kvDemandTokens,
    long ownRoomTokens,
    Reading promptTokensPerSecond,
    Reading prefixHitShare) {}
