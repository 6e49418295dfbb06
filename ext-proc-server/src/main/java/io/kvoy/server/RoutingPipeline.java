// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.TokenIds;
import io.kvoy.inference.dialect.BodyDecoder;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.dialect.ParseOptions;
import io.kvoy.inference.dialect.ParsedBody;
import io.kvoy.inference.dialect.StreamOptions;
import io.kvoy.inference.json.SpliceableBody;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixMatch;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.kvcache.Tier;
import io.kvoy.scoring.kvcache.TierShares;
import io.kvoy.scoring.pick.CachedTokens;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.scoring.pick.PickRequest.CacheKnowledge;
import io.kvoy.scoring.pick.PickRequest.Tokens;
import io.kvoy.scoring.pick.Picker;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.feedback.Feedback;
import io.kvoy.server.feedback.ResponseHomes;
import io.kvoy.server.feedback.Sessions;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.server.metrics.ResponseHome;
import io.kvoy.server.queue.WaitingRoom;
import io.kvoy.server.tokens.WorkerTokens;
import io.kvoy.tokenizer.Tokenization;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
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
  /** No request is turned away for its predicted time. */
  private static final double NO_LIMIT_MILLIS = 0;

  /**
   * Events of a prefill follow its end within milliseconds; the rest is margin for a busy worker.
   */
  private static final long SPECULATIVE_TTL_NANOS = 2_000_000_000L;

  /**
   * How long a prompt is remembered of a worker without events, which will never tell that it is
   * gone: a busy worker of 100 000 tokens of KV turns its cache over within minutes.
   */
  private static final long REMEMBERED_TTL_NANOS = 300_000_000_000L;

  /** Output tokens assumed when a request sets no limit or an absurd one. */
  private static final int MAX_EXPECTED_OUTPUT_TOKENS = 4096;

  /** Sessions whose last worker is remembered. */
  private static final int SESSIONS = 1 << 16;

  /** Tenant of every request while none are told apart. */
  private static final String NO_TENANT = "";

  /** Where stored answers are read, cancelled and deleted, by id. */
  private static final String STORED_RESPONSES = "/v1/responses/";

  private final Supplier<PoolTable> pools;
  private final Supplier<Fleet> fleet;
  private final PrefixIndex index;
  private final SpeculativePrefixes speculative;
  private final OwnKeyCheck ownKeys;
  private final Picker picker;
  private final Feedback feedback;
  private final LongSupplier nanoClock;
  private final Supplier<Duration> inFlightTtl;
  private final IntSupplier maxDecodedBytes;
  private final ParseOptions parsing;
  private final RoutedObserver routed;
  private final ResponseHomes homes;
  private final WaitingRoom<RoutingDecision> waitingRoom;
  private final Sessions sessions = new Sessions(SESSIONS);

  /**
   * @param pools the present pools; a reload changes what it returns
   * @param fleet the present fleet
   * @param ownKeys told what is routed where, to compare it with what the workers store
   * @param inFlightTtl when a request whose end nobody reports is forgotten
   * @param maxDecodedBytes largest body after decompression
   * @param parsing how bodies are read
   * @param routed told of every request that got a worker
   * @param homes where answers that a request may continue were made
   * @param waitingRoom where requests wait that no worker can take
   */
  public RoutingPipeline(
      Supplier<PoolTable> pools,
      Supplier<Fleet> fleet,
      PrefixIndex index,
      SpeculativePrefixes speculative,
      OwnKeyCheck ownKeys,
      Picker picker,
      Feedback feedback,
      LongSupplier nanoClock,
      Supplier<Duration> inFlightTtl,
      IntSupplier maxDecodedBytes,
      ParseOptions parsing,
      RoutedObserver routed,
      ResponseHomes homes,
      WaitingRoom<RoutingDecision> waitingRoom) {
    this.pools = pools;
    this.fleet = fleet;
    this.index = index;
    this.speculative = speculative;
    this.ownKeys = ownKeys;
    this.picker = picker;
    this.feedback = feedback;
    this.nanoClock = nanoClock;
    this.inFlightTtl = inFlightTtl;
    this.maxDecodedBytes = maxDecodedBytes;
    this.parsing = parsing;
    this.routed = routed;
    this.homes = homes;
    this.waitingRoom = waitingRoom;
  }

  // ---- understand: bytes to block keys ----

  /**
   * Reads, renders and tokenizes a whole request body. Takes CPU time in proportion to it.
   *
   * @param early told what is known before the tokens are, for a deadline that does not wait for
   *     them
   * @param done told the result, once: on this thread, or later on another one when a worker is
   *     asked for the tokens
   */
  public void understand(
      RequestHead head,
      byte[] body,
      Consumer<? super Understanding> early,
      Consumer<? super Understanding> done) {
    long start = nanoClock.getAsLong();
    if (head.api() == ApiKind.OTHER) {
      done.accept(unread(head, "not_an_inference_path"));
      return;
    }
    switch (BodyDecoder.decode(body, head.contentEncoding(), maxDecodedBytes.getAsInt())) {
      case BodyDecoder.Decoded.Plain plain -> parsed(head, plain.body(), early, done, start);
      // The worker may well know the encoding.
      case BodyDecoder.Decoded.Unsupported _ -> done.accept(unread(head, "content_encoding"));
      case BodyDecoder.Decoded.TooLarge _ ->
          done.accept(
              refused(
                  head,
                  RequestOutcome.TOO_LARGE,
                  "The decompressed request body is larger than the limit."));
      case BodyDecoder.Decoded.Corrupt _ ->
          done.accept(
              refused(
                  head,
                  RequestOutcome.BAD_REQUEST,
                  "The request body is not what its content-encoding says."));
    }
  }

  private void parsed(
      RequestHead head,
      byte[] body,
      Consumer<? super Understanding> early,
      Consumer<? super Understanding> done,
      long start) {
    ParsedBody read = Dialects.read(head.api(), body, parsing);
    switch (read.parse()) {
      case RequestParse.Parsed(InferenceRequest request) ->
          tokenized(
              new Read(head, request, Objects.requireNonNull(read.body()), null, start),
              early,
              done);
      case RequestParse.PassThrough(ApiKind _, String reason) -> done.accept(unread(head, reason));
      case RequestParse.Malformed(ApiKind _, String message, String _) ->
          done.accept(refused(head, RequestOutcome.BAD_REQUEST, message));
    }
  }

  /** A request that was read, and when that began. */
  private record Read(
      RequestHead head,
      InferenceRequest request,
      SpliceableBody body,
      @Nullable EditedBody edited,
      long startNanos) {}

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
          RoutingDecision.Reject.of(
              head.api(),
              RequestOutcome.OVERLOADED,
              "The request could not be read in time. Try again."));
    }
    return new Understanding.Routable(
        head, present.first(), null, List.of(), 0, reason, null, null, 0);
  }

  private void tokenized(
      Read parsed, Consumer<? super Understanding> early, Consumer<? super Understanding> done) {
    InferenceRequest request = parsed.request();
    ModelPoolRuntime pool = pools.get().serving(request.model());
    if (pool == null) {
      done.accept(
          refused(
              parsed.head(),
              RequestOutcome.UNKNOWN_MODEL,
              "The model `" + request.model() + "` does not exist."));
      return;
    }
    Read read =
        new Read(
            parsed.head(),
            request,
            parsed.body(),
            pool.config().injectUsage() ? asksForUsage(parsed) : null,
            parsed.startNanos());
    early.accept(routable(read, pool, List.of(), 0, "deadline"));
    WorkerTokens workerTokens = pool.workerTokens();
    if (workerTokens == null) {
      done.accept(keyed(read, pool, pool.tokenizer().tokenize(request)));
    } else {
      workerTokens.tokenize(
          request, read.body().bytes(), tokens -> done.accept(keyed(read, pool, tokens)));
    }
  }

  /**
   * The body with a question for usage in it, where the answer would bring none and the question
   * can be hidden from the client again. Stream options of the client's own are left alone: others
   * of them take effect only together with this one. So are requests for several choices, whose
   * chunks cannot be made what they would have been.
   */
  private static @Nullable EditedBody asksForUsage(Read read) {
    return read.request().stream()
            && !read.request().includeUsage()
            && read.head().editable()
            && !read.body().has("stream_options")
            && (!read.body().has("n") || read.body().has("n", "1"))
            && read.request().promptCount() == 1
        ? new EditedBody(read.body().apply(List.of(StreamOptions.REQUEST_USAGE)))
        : null;
  }

  private Understanding keyed(Read read, ModelPoolRuntime pool, Tokenization tokens) {
    return switch (tokens) {
      case Tokenization.Exact exact ->
          routable(read, pool, keys(read, pool, exact), exact.totalTokens(), "");
      case Tokenization.Estimated(int estimate, String reason, int[] prefix) ->
          routable(
              read,
              pool,
              prefix.length == 0
                  ? List.of()
                  : keys(read, pool, new Tokenization.Exact(List.of(prefix))),
              estimate,
              reason);
      case Tokenization.Unavailable(String reason) -> routable(read, pool, List.of(), 0, reason);
    };
  }

  private List<BlockKeys> keys(Read read, ModelPoolRuntime pool, Tokenization.Exact exact) {
    InferenceRequest request = read.request();
    CacheIdentity identity = CacheIdentity.of(pool.adapter(request.model()), request.cacheSalt());
    Tokenization.Growth growth = exact.growth();
    if (growth != null) {
      // The next turn of a conversation has most keys of the one before.
      TokenIds ids = exact.ids().getFirst();
      return List.of(
          growth.grown(
              BlockKeys.class,
              (before, shared) -> BlockKeys.of(identity, ids, index.blockSize(), before, shared)));
    }
    List<BlockKeys> keys = new ArrayList<>(exact.ids().size());
    for (TokenIds ids : exact.ids()) {
      keys.add(BlockKeys.of(identity, ids, index.blockSize(), null, 0));
    }
    return keys;
  }

  private Understanding routable(
      Read read, ModelPoolRuntime pool, List<BlockKeys> keys, int promptTokens, String degraded) {
    return new Understanding.Routable(
        read.head(),
        pool,
        read.request(),
        keys,
        promptTokens,
        degraded,
        read.body(),
        read.edited(),
        nanoClock.getAsLong() - read.startNanos());
  }

  private static Understanding refused(RequestHead head, RequestOutcome outcome, String message) {
    return new Understanding.Refused(head, RoutingDecision.Reject.of(head.api(), outcome, message));
  }

  // ---- decide: block keys to a worker ----

  /** As below, for a request that cannot wait. */
  public RoutingDecision decide(Understanding understanding) {
    return decide(understanding, null);
  }

  /**
   * Chooses a worker and books the request on it, in one step. To be called once per request.
   *
   * @param later told the decision when it is {@link RoutingDecision.Wait} now, once and on another
   *     thread, unless the place was left; false when nobody wants it any more, so that what was
   *     booked is given back. Null for a request that cannot wait
   */
  public RoutingDecision decide(
      Understanding understanding, @Nullable Predicate<? super RoutingDecision> later) {
    return switch (understanding) {
      case Understanding.Refused(RequestHead head, RoutingDecision.Reject reject) -> {
        rejected(head.api(), reject.outcome());
        yield reject;
      }
      case Understanding.Routable routable -> {
        ModelPool.Queue queue = routable.pool().config().queue().orElse(null);
        yield later == null || queue == null || routable.head().api() == ApiKind.OTHER
            ? noted(routable, route(routable, false).decision())
            : routeOrWait(routable, queue, later);
      }
    };
  }

  private RoutingDecision routeOrWait(
      Understanding.Routable request,
      ModelPool.Queue queue,
      Predicate<? super RoutingDecision> later) {
    Wishes wishes = request.head().wishes();
    int priority = queue.priority(wishes.objective());
    String line = line(request);
    Attempt first = null;
    // Nobody overtakes those who wait.
    if (!waitingRoom.isBehind(line, priority)) {
      first = route(request, false);
      if (!first.mayWait()) {
        return noted(request, first.decision());
      }
    }
    Attempts attempts = new Attempts(request.withoutBody(), first != null);
    WaitingRoom.Place<RoutingDecision> place =
        priority < 0
            ? null
            : waitingRoom.enter(
                line,
                new WaitingRoom.Guest<>(
                    priority,
                    queue.flow(wishes.fairnessId()),
                    attempts::next,
                    () -> reject(request.head(), RequestOutcome.QUEUE_EXPIRED),
                    () -> reject(request.head(), RequestOutcome.INTERNAL_ERROR),
                    decision -> later.test(noted(attempts.request, decision)),
                    RoutingPipeline::undo,
                    request.pool().meters()),
                queue.maxWaiting(),
                queue.timeout());
    if (place == null) {
      return noted(
          request,
          first == null ? reject(request.head(), RequestOutcome.SATURATED) : first.decision());
    }
    return new RoutingDecision.Wait(place, request.bytes());
  }

  /**
   * Who waits for whom: requests of one pool, of those that the proxy restricts to some workers the
   * ones with the same restriction.
   */
  private static String line(Understanding.Routable request) {
    List<Endpoint> subset = request.head().subset();
    return subset == null ? request.pool().name() : request.pool().name() + subset;
  }

  private static RoutingDecision reject(RequestHead head, RequestOutcome outcome) {
    return RoutingDecision.Reject.of(head.api(), outcome);
  }

  /**
   * What came of one try.
   *
   * @param mayWait whether a later one may have another end
   */
  private record Attempt(RoutingDecision decision, boolean mayWait) {}

  /** The tries to place a request that waits, one at a time. */
  private final class Attempts {
    private final Understanding.Routable request;

    /** Whether it was tried, and counted, before. */
    private boolean isKnown;

    Attempts(Understanding.Routable request, boolean isKnown) {
      this.request = request;
      this.isKnown = isKnown;
    }

    /** The decision if it is one; null as long as it is only that nobody can take it yet. */
    @Nullable RoutingDecision next() {
      ModelPoolRuntime now = pools.get().named(request.pool().name());
      Attempt attempt = route(request, isKnown);
      isKnown = true;
      return attempt.mayWait() && now != null && now.config().queue().isPresent()
          ? null
          : attempt.decision();
    }
  }

  /** Gives back what was booked for somebody who has left. */
  private static void undo(RoutingDecision decision) {
    if (decision instanceof RoutingDecision.Route(Dispatch dispatch, var _)) {
      dispatch.aborted();
    }
  }

  private RoutingDecision noted(Understanding.Routable request, RoutingDecision decision) {
    if (decision instanceof RoutingDecision.Reject reject) {
      feedback.rejected(request.pool(), request.head().api(), reject.outcome());
    }
    return decision;
  }

  /**
   * @param isKnown whether it could not be placed before
   */
  private Attempt route(Understanding.Routable request, boolean isKnown) {
    World world = new World(fleet.get(), pools.get(), nanoClock.getAsLong());
    List<Worker> candidates = candidates(request, world);
    Worker home = home(request, candidates, world, isKnown);
    Attempt attempt = route(request, world, home == null ? candidates : List.of(home), isKnown);
    if (home != null
        && attempt.decision() instanceof RoutingDecision.Reject
        && candidates.size() > 1) {
      // An answer without its past is still better said by the worker than by us.
      return route(request, world, candidates, true);
    }
    return attempt;
  }

  private Attempt route(
      Understanding.Routable request, World world, List<Worker> candidates, boolean isKnown) {
    long lookUpStart = nanoClock.getAsLong();
    List<PrefixMatch> matches = lookUp(request, candidates, isKnown);
    if (request.exact() && !isKnown) {
      request.pool().meters().lookupDuration(nanoClock.getAsLong() - lookUpStart);
    }
    PickRequest wanted = pickRequest(request, candidates, matches);
    Pick pick =
        isKnown ? picker.pickAgain(wanted, world.fleet()) : picker.pick(wanted, world.fleet());
    return switch (pick) {
      case Pick.Picked picked -> {
        for (int i = 0; i < matches.size(); i++) {
          PrefixMatch match = matches.get(i);
          BlockKeys prompt = request.prompts().get(i);
          speculative.routed(picked.worker(), prompt, match, speculativeTtl(match, picked));
          ownKeys.routed(picked.worker(), prompt, match);
          for (Tier tier : Tier.values()) {
            request.pool().meters().hitTokens(tier, match.cachedTokens(picked.worker(), tier));
          }
        }
        sessions.picked(request.head().wishes().session(), picked.worker());
        Dispatch dispatch = feedback.dispatched(request, world, picked, wanted);
        routed.routed(request, picked.worker());
        yield new Attempt(new RoutingDecision.Route(dispatch, request.edited()), false);
      }
      case Pick.Saturated saturated ->
          new Attempt(
              RoutingDecision.Reject.of(request.head().api(), RequestOutcome.SATURATED)
                  .retryAfter(saturated.retryAfter()),
              !saturated.isTooLongAlone());
      case Pick.NoCandidate _ ->
          new Attempt(reject(request.head(), RequestOutcome.NO_CANDIDATE), true);
    };
  }

  /** A worker that needs twice the predicted time has most likely not taken the prompt at all. */
  private static long speculativeTtl(PrefixMatch match, Pick.Picked picked) {
    return match.view(picked.worker()).trust() == KvViewState.Trust.NONE
        ? REMEMBERED_TTL_NANOS
        : SPECULATIVE_TTL_NANOS + (long) (2 * picked.prediction().totalMillis() * 1e6);
  }

  /** Workers of the pool, restricted to the proxy's subset hint if it gave one. */
  private static List<Worker> candidates(Understanding.Routable request, World world) {
    List<Worker> all = world.fleet().workers(request.pool().name());
    List<Endpoint> subset = request.head().subset();
    List<Worker> allowed =
        subset == null
            ? all
            : all.stream().filter(worker -> subset.contains(worker.endpoint())).toList();
    return ConformanceHooks.restrict(allowed, request.head().wishes().endpoints());
  }

  /**
   * The worker that holds what this request continues or asks for; null when it stands alone or
   * nobody ready holds it.
   */
  private @Nullable Worker home(
      Understanding.Routable request, List<Worker> candidates, World world, boolean isKnown) {
    String id = continued(request);
    if (id == null) {
      return null;
    }
    Worker home = homes.home(NO_TENANT, id);
    ResponseHome found =
        home == null
            ? ResponseHome.UNKNOWN
            : !ResponseHomes.lives(home, world.fleet())
                ? ResponseHome.GONE
                : !candidates.contains(home) || !world.fleet().health(home).isReady()
                    ? ResponseHome.NOT_READY
                    : ResponseHome.FOUND;
    if (!isKnown) {
      request.pool().meters().responseHome(found);
    }
    return found == ResponseHome.FOUND ? home : null;
  }

  private static @Nullable String continued(Understanding.Routable request) {
    if (request.request() != null) {
      return request.request().previousResponseId();
    }
    String path = request.head().path();
    if (!path.startsWith(STORED_RESPONSES)) {
      return null;
    }
    String[] rest = path.substring(STORED_RESPONSES.length()).split("[/?]", 2);
    return rest[0].isEmpty() ? null : rest[0];
  }

  /** One look-up per prompt; a request may carry several. */
  private List<PrefixMatch> lookUp(
      Understanding.Routable request, List<Worker> candidates, boolean isKnown) {
    List<PrefixMatch> matches = new ArrayList<>(request.prompts().size());
    for (BlockKeys prompt : request.prompts()) {
      PrefixMatch match = new PrefixMatch();
      index.lookup(prompt, candidates, match);
      speculative.merge(prompt, match);
      ownKeys.discount(prompt, candidates, match);
      if (!isKnown) {
        request.pool().meters().lookup(isHit(candidates, match));
      }
      matches.add(match);
    }
    return matches;
  }

  private static boolean isHit(List<Worker> candidates, PrefixMatch match) {
    for (Worker worker : candidates) {
      if (match.cachedTokensAnyTier(worker) > 0) {
        return true;
      }
    }
    return false;
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
        new Held(request.prompts(), matches),
        cacheKnowledge(candidates, matches),
        expectedOutput(request.request()),
        Feedback.reportsFirstToken(request),
        inFlightTtl.get(),
        limitMillis(request),
        sessions.last(request.head().wishes().session()),
        request.pool().config().fallbacks(),
        adapter(request));
  }

  private static @Nullable String adapter(Understanding.Routable request) {
    return request.request() == null ? null : request.pool().adapter(request.request().model());
  }

  private static double limitMillis(Understanding.Routable request) {
    return request.pool().config().refuseOverTarget()
        ? request.targetTtftMillis()
        : NO_LIMIT_MILLIS;
  }

  /**
   * What workers hold, and will hold, of all prompts of a request together. Of a worker without
   * events what we routed there counts as held: nobody will confirm it, and by the time another
   * request comes it has mostly been read.
   */
  private record Held(List<BlockKeys> prompts, List<PrefixMatch> matches) implements CachedTokens {
    private static boolean isRemembered(PrefixMatch match, Worker worker) {
      return match.view(worker).trust() == KvViewState.Trust.NONE;
    }

    @Override
    public int on(Worker worker) {
      int cached = 0;
      for (PrefixMatch match : matches) {
        cached +=
            isRemembered(match, worker) ? match.expectedTokens(worker) : match.cachedTokens(worker);
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

    @Override
    public long prefixKey(int tokens) {
      if (prompts.size() != 1) {
        return 0;
      }
      BlockKeys prompt = prompts.getFirst();
      int blocks = tokens / prompt.blockSize();
      return blocks > 0 && blocks <= prompt.blocks() ? prompt.key(blocks - 1) : 0;
    }

    @Override
    public int anywhereOn(Worker worker) {
      int held = 0;
      for (PrefixMatch match : matches) {
        held +=
            isRemembered(match, worker)
                ? match.expectedTokens(worker)
                : match.cachedTokensAnyTier(worker);
      }
      return held;
    }

    @Override
    public double worthOn(Worker worker) {
      double worth = 0;
      for (PrefixMatch match : matches) {
        worth +=
            isRemembered(match, worker)
                ? match.expectedTokens(worker)
                : match.savedTokens(worker, TierShares.DEFAULT);
      }
      return worth;
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
