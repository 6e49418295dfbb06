// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.BodyDecoder;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.dialect.ErrorBody;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixMatch;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.pick.CachedTokens;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.scoring.pick.PickRequest.CacheKnowledge;
import io.kvoy.scoring.pick.PickRequest.Tokens;
import io.kvoy.scoring.pick.Picker;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.feedback.Feedback;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.tokenizer.Tokenization;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The way of a request, stage after stage: the page to read first.
 *
 * <pre>
 * head, bytes ──parse──▶ InferenceRequest ──tokenize──▶ ids ──▶ BlockKeys         {@link #understand}
 *                                                                  │
 * World (fleet, pools, now) ──▶ candidates ──look-up──▶ cached tokens ──▶ Pick    {@link #decide}
 *                                                                  │
 *                                                        Dispatch (reserved)  or  Reject
 * </pre>
 *
 * <p>{@link #understand} does the expensive, effect-free half on a decision thread. {@link #decide}
 * does the cheap half that books the request on a worker; its caller has made sure that it is
 * called once per request. Each stage takes the value of the one before; nothing is passed around
 * and filled up. Rooms still to come have their place: the tenant before parsing, rules and guards
 * on the candidates, limits before the look-up.
 *
 * <p>Called from any thread; holds no lock and does no I/O.
 */
public final class RoutingPipeline {
  /** Suggested pause for a client that found no ready worker; a health interval or two. */
  private static final int RETRY_AFTER_SECONDS = 2;

  /** No request is turned away for its predicted time; that is for a policy to say. */
  private static final double NO_LIMIT_MILLIS = 0;

  /**
   * Events of a prefill follow its end within milliseconds; the rest is margin for a busy worker.
   */
  private static final long SPECULATIVE_TTL_NANOS = 2_000_000_000L;

  /** Output tokens assumed when a request sets no limit or an absurd one. */
  private static final int MAX_EXPECTED_OUTPUT_TOKENS = 4096;

  private final Supplier<PoolTable> pools;
  private final Supplier<Fleet> fleet;
  private final PrefixIndex index;
  private final SpeculativePrefixes speculative;
  private final Picker picker;
  private final Feedback feedback;
  private final LongSupplier nanoClock;
  private final Supplier<Duration> inFlightTtl;
  private final IntSupplier maxDecodedBytes;

  /**
   * @param pools the present pools; a reload changes what it returns
   * @param fleet the present fleet
   * @param inFlightTtl when a request whose end nobody reports is forgotten
   * @param maxDecodedBytes largest body after decompression
   */
  public RoutingPipeline(
      Supplier<PoolTable> pools,
      Supplier<Fleet> fleet,
      PrefixIndex index,
      SpeculativePrefixes speculative,
      Picker picker,
      Feedback feedback,
      LongSupplier nanoClock,
      Supplier<Duration> inFlightTtl,
      IntSupplier maxDecodedBytes) {
    this.pools = pools;
    this.fleet = fleet;
    this.index = index;
    this.speculative = speculative;
    this.picker = picker;
    this.feedback = feedback;
    this.nanoClock = nanoClock;
    this.inFlightTtl = inFlightTtl;
    this.maxDecodedBytes = maxDecodedBytes;
  }

  // ---- understand: bytes to block keys ----

  /**
   * Reads, renders and tokenizes a whole request body. Takes CPU time in proportion to it.
   *
   * @param early told what is known before the tokens are, for a deadline that does not wait for
   *     them
   */
  public Understanding understand(
      RequestHead head, byte[] body, Consumer<? super Understanding> early) {
    long start = nanoClock.getAsLong();
    if (head.api() == ApiKind.OTHER) {
      return unread(head, "not_an_inference_path");
    }
    return switch (BodyDecoder.decode(body, head.contentEncoding(), maxDecodedBytes.getAsInt())) {
      case BodyDecoder.Decoded.Plain plain -> parsed(head, plain.body(), early, start);
      // The worker may well know the encoding.
      case BodyDecoder.Decoded.Unsupported _ -> unread(head, "content_encoding");
      case BodyDecoder.Decoded.TooLarge _ ->
          refused(
              head,
              413,
              "The decompressed request body is larger than the limit.",
              RequestOutcome.TOO_LARGE);
      case BodyDecoder.Decoded.Corrupt _ ->
          refused(
              head,
              400,
              "The request body is not what its content-encoding says.",
              RequestOutcome.BAD_REQUEST);
    };
  }

  private Understanding parsed(
      RequestHead head, byte[] body, Consumer<? super Understanding> early, long start) {
    return switch (Dialects.parse(head.api(), body)) {
      case RequestParse.Parsed(InferenceRequest request) -> tokenized(head, request, early, start);
      case RequestParse.PassThrough(ApiKind _, String reason) -> unread(head, reason);
      case RequestParse.Malformed(ApiKind _, String message, String _) ->
          refused(head, 400, message, RequestOutcome.BAD_REQUEST);
    };
  }

  /**
   * For a request whose body is not there, not readable in time, or none of ours: by load alone.
   * With several pools nobody can say where such an inference request belongs, so it is asked to
   * come again.
   */
  public Understanding unread(RequestHead head, String reason) {
    PoolTable present = pools.get();
    if (head.api() != ApiKind.OTHER && present.pools().size() > 1) {
      return new Understanding.Refused(
          head,
          new RoutingDecision.Reject(
              503,
              ErrorBody.of(head.api(), 503, "The request could not be read in time. Try again."),
              RequestOutcome.OVERLOADED,
              RETRY_AFTER_SECONDS));
    }
    return new Understanding.Routable(head, present.first(), null, List.of(), 0, reason, 0);
  }

  private Understanding tokenized(
      RequestHead head,
      InferenceRequest request,
      Consumer<? super Understanding> early,
      long start) {
    ModelPoolRuntime pool = pools.get().serving(request.model());
    if (pool == null) {
      return refused(
          head,
          404,
          "The model `" + request.model() + "` does not exist.",
          RequestOutcome.UNKNOWN_MODEL);
    }
    early.accept(routable(head, pool, request, List.of(), 0, "deadline", start));
    return switch (pool.tokenizer().tokenize(request.prompt())) {
      case Tokenization.Exact exact -> exact(head, pool, request, exact.prompts(), start);
      case Tokenization.Estimated(int estimate, String reason) ->
          routable(head, pool, request, List.of(), estimate, reason, start);
      case Tokenization.Unavailable(String reason) ->
          routable(head, pool, request, List.of(), 0, reason, start);
    };
  }

  private Understanding exact(
      RequestHead head,
      ModelPoolRuntime pool,
      InferenceRequest request,
      List<int[]> prompts,
      long start) {
    Truncation truncation = request.truncation();
    if (truncation != null && truncation.maxTokens() < 0) {
      // As many as the worker's model length leaves: not known here.
      int tokens = prompts.stream().mapToInt(ids -> ids.length).sum();
      return routable(head, pool, request, List.of(), tokens, "truncation", start);
    }
    CacheIdentity identity = CacheIdentity.of(pool.adapter(request.model()), request.cacheSalt());
    List<BlockKeys> keys = new ArrayList<>(prompts.size());
    int tokens = 0;
    for (int[] whole : prompts) {
      int[] ids = truncation == null ? whole : truncation.of(whole);
      keys.add(BlockKeys.of(identity, ids, index.blockSize()));
      tokens += ids.length;
    }
    return routable(head, pool, request, keys, tokens, "", start);
  }

  private Understanding routable(
      RequestHead head,
      ModelPoolRuntime pool,
      InferenceRequest request,
      List<BlockKeys> keys,
      int promptTokens,
      String degraded,
      long start) {
    return new Understanding.Routable(
        head, pool, request, keys, promptTokens, degraded, nanoClock.getAsLong() - start);
  }

  private static Understanding refused(
      RequestHead head, int status, String message, RequestOutcome outcome) {
    return new Understanding.Refused(
        head,
        new RoutingDecision.Reject(status, ErrorBody.of(head.api(), status, message), outcome, 0));
  }

  // ---- decide: block keys to a worker ----

  /** Chooses a worker and books the request on it, in one step. To be called once per request. */
  public RoutingDecision decide(Understanding understanding) {
    return switch (understanding) {
      case Understanding.Refused(RequestHead head, RoutingDecision.Reject reject) -> {
        rejected(head.api(), reject.outcome());
        yield reject;
      }
      case Understanding.Routable routable ->
          route(routable, new World(fleet.get(), pools.get(), nanoClock.getAsLong()));
    };
  }

  private RoutingDecision route(Understanding.Routable request, World world) {
    List<Worker> candidates = candidates(request, world);
    long lookUpStart = nanoClock.getAsLong();
    List<PrefixMatch> matches = lookUp(request, candidates);
    if (request.exact()) {
      request.pool().meters().lookupDuration(nanoClock.getAsLong() - lookUpStart);
    }
    PickRequest wanted = pickRequest(request, candidates, matches);
    return switch (picker.pick(wanted, world.fleet())) {
      case Pick.Picked picked -> {
        for (int i = 0; i < matches.size(); i++) {
          speculative.routed(
              picked.worker(), request.prompts().get(i), matches.get(i), speculativeTtl(picked));
        }
        Dispatch dispatch = feedback.dispatched(request, world, picked, wanted);
        yield new RoutingDecision.Route(dispatch);
      }
      case Pick.Saturated saturated -> {
        feedback.rejected(request.pool(), request.head().api(), RequestOutcome.SATURATED);
        yield new RoutingDecision.Reject(
            429,
            ErrorBody.of(
                request.head().api(), 429, "All workers of this model are busy. Try again later."),
            RequestOutcome.SATURATED,
            (int) Math.max(1, Math.ceilDiv(saturated.retryAfter().toMillis(), 1000L)));
      }
      case Pick.NoCandidate _ -> {
        feedback.rejected(request.pool(), request.head().api(), RequestOutcome.NO_CANDIDATE);
        yield new RoutingDecision.Reject(
            503,
            ErrorBody.of(
                request.head().api(), 503, "No worker of this model is ready. Try again shortly."),
            RequestOutcome.NO_CANDIDATE,
            RETRY_AFTER_SECONDS);
      }
    };
  }

  /** A worker that needs twice the predicted time has most likely not taken the prompt at all. */
  private static long speculativeTtl(Pick.Picked picked) {
    return SPECULATIVE_TTL_NANOS + (long) (2 * picked.prediction().totalMillis() * 1e6);
  }

  /** Workers of the pool, restricted to the proxy's subset hint if it gave one. */
  private static List<Worker> candidates(Understanding.Routable request, World world) {
    List<Worker> all = world.fleet().workers(request.pool().name());
    List<Endpoint> subset = request.head().subset();
    return subset == null
        ? all
        : all.stream().filter(worker -> subset.contains(worker.endpoint())).toList();
  }

  /** One look-up per prompt; a request may carry several. */
  private List<PrefixMatch> lookUp(Understanding.Routable request, List<Worker> candidates) {
    List<PrefixMatch> matches = new ArrayList<>(request.prompts().size());
    for (BlockKeys prompt : request.prompts()) {
      PrefixMatch match = new PrefixMatch();
      index.lookup(prompt, candidates, match);
      speculative.merge(prompt, match);
      matches.add(match);
    }
    return matches;
  }

  private PickRequest pickRequest(
      Understanding.Routable request, List<Worker> candidates, List<PrefixMatch> matches) {
    Tokens known =
        // What runs no prefill costs none; only a prompt that was not read counts as a typical one.
        request.exact() || request.head().api() == ApiKind.OTHER
            ? Tokens.EXACT
            : request.promptTokens() > 0 ? Tokens.ESTIMATED : Tokens.UNKNOWN;
    return new PickRequest(
        candidates,
        request.promptTokens(),
        known,
        new Held(matches),
        cacheKnowledge(candidates, matches),
        expectedOutput(request.request()),
        Feedback.reportsFirstToken(request),
        inFlightTtl.get(),
        NO_LIMIT_MILLIS,
        null,
        0);
  }

  /** What workers hold, and will hold, of all prompts of a request together. */
  private record Held(List<PrefixMatch> matches) implements CachedTokens {
    @Override
    public int on(Worker worker) {
      int cached = 0;
      for (PrefixMatch match : matches) {
        cached += match.cachedTokens(worker);
      }
      return cached;
    }

    @Override
    public int expectedOn(Worker worker) {
      int expected = 0;
      for (PrefixMatch match : matches) {
        expected += match.expectedTokens(worker);
      }
      return expected;
    }
  }

  private static CacheKnowledge cacheKnowledge(List<Worker> candidates, List<PrefixMatch> matches) {
    if (matches.isEmpty()) {
      return CacheKnowledge.NONE;
    }
    PrefixMatch match = matches.getFirst();
    for (Worker worker : candidates) {
      if (match.view(worker).trust() != KvViewState.Trust.NONE) {
        return CacheKnowledge.EVENTS;
      }
    }
    return CacheKnowledge.OWN_ROUTING;
  }

  private static int expectedOutput(@Nullable InferenceRequest request) {
    return request == null || request.maxTokens().isEmpty()
        ? 0
        : (int) Math.min(MAX_EXPECTED_OUTPUT_TOKENS, request.maxTokens().getAsLong());
  }

  /** Notes a refusal that a door decided on its own. */
  public void rejected(ApiKind api, RequestOutcome outcome) {
    feedback.rejected(null, api, outcome);
  }
}
