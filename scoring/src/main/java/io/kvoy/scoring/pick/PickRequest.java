// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What a pick is to be made for.
 *
 * @param candidates who may serve it, after rules and guards; their health is looked at by the pick
 * @param promptTokens prompt tokens; ignored when {@code tokens} is {@link Tokens#UNKNOWN}
 * @param tokens how well the prompt's length is known
 * @param cached what each candidate holds of it
 * @param cacheKnowledge where {@code cached} comes from
 * @param expectedOutputTokens output tokens expected, 0 when there is no idea
 * @param reportsFirstToken whether the caller will report the first token (streamed answers)
 * @param ttl after this time the reservation is taken back even if nobody reports an end
 * @param limitMillis longest predicted time to first token at which the request is still to be
 *     placed; 0 for no limit
 * @param preferred worker of the same session, which wins ties; null when there is none
 * @param fallbacks how many further workers to name, best first, for the gateway to retry on
 * @param adapter LoRA adapter that the request asks for, null for the base model
 */
public record PickRequest(
    List<Worker> candidates,
    int promptTokens,
    Tokens tokens,
    CachedTokens cached,
    CacheKnowledge cacheKnowledge,
    int expectedOutputTokens,
    boolean reportsFirstToken,
    Duration ttl,
    double limitMillis,
    @Nullable Worker preferred,
    int fallbacks,
    @Nullable String adapter) {

  /** How well the prompt's length is known. */
  public enum Tokens {
    EXACT,
    /** Guessed from its bytes. */
    ESTIMATED,
    /** Not at all: the pick goes by load. */
    UNKNOWN
  }

  /** Where the knowledge of caches comes from. */
  public enum CacheKnowledge {
    /** KV events of the workers. */
    EVENTS,
    /** Remembered from where we routed before. */
    OWN_ROUTING,
    /** Nowhere: all candidates count as cold. */
    NONE
  }

  /** Default time to live: longer than any sane answer. */
  public static final Duration DEFAULT_TTL = Duration.ofMinutes(10);

  public PickRequest {
    if (!(limitMillis >= 0)) {
      throw new IllegalArgumentException("limit must not be negative, was " + limitMillis);
    }
    if (promptTokens < 0 || expectedOutputTokens < 0 || fallbacks < 0) {
      throw new IllegalArgumentException(
          "tokens and fallbacks must not be negative, were "
              + promptTokens
              + ", "
              + expectedOutputTokens
              + ", "
              + fallbacks);
    }
  }

  /** A streamed request whose prompt is known exactly and whose caches are known from events. */
  public static PickRequest of(List<Worker> candidates, int promptTokens, CachedTokens cached) {
    return new PickRequest(
        candidates,
        promptTokens,
        Tokens.EXACT,
        cached,
        CacheKnowledge.EVENTS,
        0,
        true,
        DEFAULT_TTL,
        0,
        null,
        0,
        null);
  }

  /** A streamed request of which nothing is known but who may serve it. */
  public static PickRequest unknown(List<Worker> candidates) {
    return new PickRequest(
        candidates,
        0,
        Tokens.UNKNOWN,
        CachedTokens.NONE,
        CacheKnowledge.NONE,
        0,
        true,
        DEFAULT_TTL,
        0,
        null,
        0,
        null);
  }
}
