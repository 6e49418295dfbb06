// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Scheduler and block cache of one vLLM worker, as a machine that is stepped by hand.
 *
 * <p>A step has two halves. {@link #schedule} decides what is computed, takes and stores blocks (so
 * that two requests of one step already share), and says how long the machine will need. {@link
 * #complete} produces the tokens, ends sequences and hands out the cache events of the step.
 * Between the halves nothing changes but {@link #abort}. Whoever steps it decides whether the time
 * between passes for real ({@link EngineLoop}) or not (tests).
 *
 * <p>Rules, from vLLM 0.32 ({@code v1/core/sched/scheduler.py}, {@code
 * v1/core/kv_cache_manager.py}):
 *
 * <ul>
 *   <li>running sequences first, each with all tokens it lacks, within the token budget; then
 *       waiting ones in order of arrival while budget, batch places and blocks last;
 *   <li>a waiting request is admitted only if its whole prompt fits into free blocks;
 *   <li>a running sequence that finds no block drives out the youngest one, which starts again from
 *       its cached blocks; nobody new is admitted in such a step;
 *   <li>a prefix hit covers whole blocks and never the last token;
 *   <li>a block is stored, and announced, when the step that fills it is scheduled; the events of a
 *       step leave together at its end;
 *   <li>emptying the cache is announced with the next step's events.
 * </ul>
 *
 * <p>Not thread-safe: belongs to one thread. Times are simulated nanoseconds since the worker's
 * start.
 */
final class SimEngine {

  /** What one step computes. */
  static final class Step {
    private final List<Sequence> sequences = new ArrayList<>();
    private int prefillTokens;
    private int decodeSequences;
    private long durationNanos;

    boolean isEmpty() {
      return sequences.isEmpty();
    }

    /** Machine time of the step, in simulated nanoseconds. */
    long durationNanos() {
      return durationNanos;
    }

    int prefillTokens() {
      return prefillTokens;
    }

    int decodeSequences() {
      return decodeSequences;
    }
  }

  private static final class Sequence {
    final EngineRequest request;
    final long promptSeed;
    final long arrivedNanos;
    // Prompt, then generated ids.
    int[] tokens;
    int length;
    int computed;
    int stored;
    int scheduled;
    boolean running;
    final List<Digest> digests = new ArrayList<>();
    final List<BlockPool.Block> blocks = new ArrayList<>();
    int preemptions;
    int cachedTokens;
    int createdCacheTokens;
    long scheduledNanos = -1;
    long firstTokenNanos = -1;
    long lastTokenNanos = -1;

    Sequence(EngineRequest request, long promptSeed, long arrivedNanos) {
      this.request = request;
      this.promptSeed = promptSeed;
      this.arrivedNanos = arrivedNanos;
      tokens = request.prompt();
      length = tokens.length;
    }

    int generated() {
      return length - request.prompt().length;
    }

    void append(int token) {
      // The prompt's own array is never written: the first append copies.
      if (length == tokens.length) {
        tokens = Arrays.copyOf(tokens, length + Math.max(32, length / 4));
      }
      tokens[length++] = token;
    }
  }

  private final EngineOptions options;
  private final BlockHasher hasher;
  private final TokenSource source;
  private final EngineMetrics metrics;
  private final List<KvEvent> events = new ArrayList<>();
  private final BlockPool pool;
  private final ArrayDeque<Sequence> waiting = new ArrayDeque<>();
  private final List<Sequence> running = new ArrayList<>();
  private final Map<String, Sequence> live = new HashMap<>();
  private long jitterState;

  SimEngine(EngineOptions options, TokenSource source, EngineMetrics metrics, long seed) {
    this.options = options;
    this.source = source;
    this.metrics = metrics;
    this.jitterState = seed;
    hasher = new BlockHasher(options.hashSeed());
    pool = new BlockPool(options.usableBlocks(), events);
  }

  /** Puts a request into the queue. */
  void add(EngineRequest request, long nowNanos) {
    if (request.prompt().length >= options.maxModelLen()) {
      throw new IllegalArgumentException(
          "prompt of %d tokens leaves no room below maxModelLen=%d"
              .formatted(request.prompt().length, options.maxModelLen()));
    }
    long promptSeed = Arrays.hashCode(request.prompt()) * 0x9E3779B97F4A7C15L + request.variant();
    Sequence sequence = new Sequence(request, promptSeed, nowNanos);
    if (live.putIfAbsent(request.id(), sequence) != null) {
      throw new IllegalArgumentException("request id in use: " + request.id());
    }
    digestUpTo(sequence, sequence.length);
    waiting.addLast(sequence);
    metrics.queued(request);
    publishGauges();
  }

  /**
   * Drops a request; its blocks are free, and still cached, at once. False when it is not known.
   */
  boolean abort(String requestId) {
    Sequence sequence = live.remove(requestId);
    if (sequence == null) {
      return false;
    }
    if (sequence.running) {
      running.remove(sequence);
      releaseBlocks(sequence);
    } else {
      waiting.remove(sequence);
    }
    metrics.left(sequence.request);
    publishGauges();
    return true;
  }

  /** {@code POST /reset_prefix_cache}: false, and nothing done, while requests hold blocks. */
  boolean resetPrefixCache() {
    return pool.reset();
  }

  boolean hasWork() {
    return !live.isEmpty();
  }

  int runningCount() {
    return running.size();
  }

  int waitingCount() {
    return waiting.size();
  }

  BlockPool pool() {
    return pool;
  }

  /** The requests in flight, for whoever has to tell them that the worker died. */
  List<EngineRequest> liveRequests() {
    return live.values().stream().map(s -> s.request).toList();
  }

  /** First half of a step. Empty when there is nothing to compute. */
  Step schedule(long nowNanos) {
    Step step = new Step();
    int budget = options.maxBatchedTokens();
    boolean preempted = false;
    int index = 0;
    while (index < running.size() && budget > 0) {
      Sequence sequence = running.get(index);
      int tokens = Math.min(sequence.length - sequence.computed, budget);
      boolean fits = allocate(sequence, tokens);
      while (!fits) {
        Sequence victim = running.removeLast();
        preempt(victim);
        preempted = true;
        if (victim == sequence) {
          break;
        }
        fits = allocate(sequence, tokens);
      }
      if (!fits) {
        break;
      }
      plan(step, sequence, tokens);
      budget -= tokens;
      index++;
    }
    while (!preempted
        && budget > 0
        && running.size() < options.maxNumSeqs()
        && !waiting.isEmpty()) {
      Sequence sequence = waiting.getFirst();
      int tokens = admit(sequence, budget);
      if (tokens == 0) {
        break;
      }
      waiting.removeFirst();
      sequence.running = true;
      running.add(sequence);
      if (sequence.scheduledNanos < 0) {
        sequence.scheduledNanos = nowNanos;
      }
      metrics.scheduled(sequence.request);
      plan(step, sequence, tokens);
      budget -= tokens;
    }
    step.durationNanos = durationNanos(step);
    return step;
  }

  /**
   * Second half of a step: tokens to their sinks, events to the caller.
   *
   * @param publish receives the step's cache events, before any sink hears of the step; not called
   *     when there are none
   */
  void complete(Step step, long nowNanos, java.util.function.Consumer<List<KvEvent>> publish) {
    List<EngineOutput> outputs = new ArrayList<>();
    List<Sequence> receivers = new ArrayList<>();
    int promptComputed = 0;
    int generated = 0;
    for (Sequence sequence : step.sequences) {
      if (!sequence.running) {
        // Aborted while the machine was at it.
        continue;
      }
      sequence.computed += sequence.scheduled;
      sequence.scheduled = 0;
      if (sequence.computed < sequence.length) {
        continue;
      }
      int index = sequence.generated();
      boolean mayEnd = !sequence.request.ignoreEos() && index + 1 > sequence.request.minTokens();
      int token = source.next(sequence.promptSeed, index, mayEnd);
      sequence.append(token);
      generated++;
      if (index == 0) {
        sequence.firstTokenNanos = nowNanos;
        int prompt = sequence.request.prompt().length;
        sequence.createdCacheTokens =
            Math.max(
                0, Math.min(sequence.stored * options.blockSize(), prompt) - sequence.cachedTokens);
        promptComputed += prompt - sequence.cachedTokens;
        metrics.firstToken(
            sequence.request, nowNanos - sequence.arrivedNanos, sequence.cachedTokens);
      } else {
        metrics.nextToken(nowNanos - sequence.lastTokenNanos);
      }
      sequence.lastTokenNanos = nowNanos;
      digestUpTo(sequence, sequence.length);
      EngineOutput.Finish finish = finish(sequence, token, mayEnd);
      outputs.add(
          new EngineOutput.Token(
              sequence.request.id(),
              token,
              sequence.cachedTokens,
              sequence.createdCacheTokens,
              finish));
      receivers.add(sequence);
      if (finish != null) {
        live.remove(sequence.request.id());
        running.remove(sequence);
        releaseBlocks(sequence);
        metrics.finished(
            new EngineMetrics.FinishedRequest(
                sequence.request,
                finish,
                sequence.generated(),
                sequence.preemptions,
                sequence.cachedTokens,
                nowNanos - sequence.arrivedNanos,
                sequence.scheduledNanos - sequence.arrivedNanos,
                sequence.firstTokenNanos - sequence.scheduledNanos,
                sequence.lastTokenNanos - sequence.firstTokenNanos));
      }
    }
    metrics.iteration(promptComputed + generated);
    publishGauges();
    if (!events.isEmpty()) {
      List<KvEvent> batch = List.copyOf(events);
      events.clear();
      publish.accept(batch);
    }
    for (int i = 0; i < outputs.size(); i++) {
      receivers.get(i).request.sink().accept(outputs.get(i));
    }
  }

  private EngineOutput.@Nullable Finish finish(Sequence sequence, int token, boolean mayEnd) {
    if (mayEnd && source.isEnd(token)) {
      return EngineOutput.Finish.STOP;
    }
    return sequence.generated() >= sequence.request.maxTokens()
            || sequence.length >= options.maxModelLen()
        ? EngineOutput.Finish.LENGTH
        : null;
  }

  /** Looks up the prefix and takes blocks for the first chunk; 0 when the request has to wait. */
  private int admit(Sequence sequence, int budget) {
    List<BlockPool.Block> hit = longestHit(sequence);
    int hitTokens = hit.size() * options.blockSize();
    int idleHits = 0;
    for (BlockPool.Block block : hit) {
      if (block.references() == 0) {
        idleHits++;
      }
    }
    // The whole sequence must fit, not only its first chunk (scheduler_reserve_full_isl).
    if (blocksFor(sequence.length) - hit.size() + idleHits > pool.free()) {
      return 0;
    }
    if (!hit.isEmpty() && sequence.request.fullReport()) {
      announce(sequence, 0, hit.size());
    }
    pool.touch(hit);
    sequence.blocks.addAll(hit);
    sequence.computed = hitTokens;
    sequence.stored = hit.size();
    if (sequence.preemptions == 0) {
      sequence.cachedTokens = hitTokens;
      metrics.prefixLookup(sequence.length, hitTokens);
    }
    int tokens = Math.min(sequence.length - hitTokens, budget);
    if (!allocate(sequence, tokens)) {
      throw new IllegalStateException("blocks were counted and are missing");
    }
    return tokens;
  }

  private List<BlockPool.Block> longestHit(Sequence sequence) {
    int most = (sequence.length - 1) / options.blockSize();
    List<BlockPool.Block> hit = new ArrayList<>();
    for (int i = 0; i < most; i++) {
      BlockPool.Block block = pool.lookup(sequence.digests.get(i));
      if (block == null) {
        break;
      }
      hit.add(block);
    }
    return hit;
  }

  /**
   * Takes the blocks for the next tokens and stores those that they fill; false when too few are
   * free.
   */
  private boolean allocate(Sequence sequence, int tokens) {
    int end = sequence.computed + tokens;
    int missing = blocksFor(end) - sequence.blocks.size();
    if (missing > pool.free()) {
      return false;
    }
    for (int i = 0; i < missing; i++) {
      sequence.blocks.add(pool.take());
    }
    int full = end / options.blockSize();
    if (full > sequence.stored) {
      for (int i = sequence.stored; i < full; i++) {
        pool.store(sequence.blocks.get(i), sequence.digests.get(i));
      }
      announce(sequence, sequence.stored, full);
      sequence.stored = full;
    }
    return true;
  }

  private void announce(Sequence sequence, int from, int to) {
    List<@Nullable List<String>> extraKeys = new ArrayList<>();
    EngineRequest request = sequence.request;
    EngineRequest.Lora lora = request.lora();
    String salt = request.cacheSalt();
    for (int i = from; i < to; i++) {
      List<String> keys = new ArrayList<>(2);
      if (lora != null) {
        keys.add(lora.name());
      }
      if (i == 0 && salt != null) {
        keys.add(salt);
      }
      extraKeys.add(keys.isEmpty() ? null : keys);
    }
    int size = options.blockSize();
    events.add(
        new KvEvent.Stored(
            List.copyOf(sequence.digests.subList(from, to)),
            from == 0 ? null : sequence.digests.get(from - 1),
            Arrays.copyOfRange(sequence.tokens, from * size, to * size),
            size,
            lora == null ? null : lora.id(),
            lora == null ? null : lora.name(),
            extraKeys,
            request.sessionId()));
  }

  /** Names all full blocks among the sequence's first {@code tokens} tokens. */
  private void digestUpTo(Sequence sequence, int tokens) {
    int size = options.blockSize();
    EngineRequest.Lora lora = sequence.request.lora();
    String salt = sequence.request.cacheSalt();
    for (int i = sequence.digests.size(); i < tokens / size; i++) {
      List<List<String>> keys = new ArrayList<>(2);
      if (lora != null) {
        keys.add(List.of("lora", lora.name(), lora.path()));
      }
      if (i == 0 && salt != null) {
        keys.add(List.of("cache_salt", salt));
      }
      sequence.digests.add(
          hasher.next(
              i == 0 ? hasher.root() : sequence.digests.get(i - 1),
              sequence.tokens,
              i * size,
              (i + 1) * size,
              keys.isEmpty() ? null : keys));
    }
  }

  private void plan(Step step, Sequence sequence, int tokens) {
    sequence.scheduled = tokens;
    step.sequences.add(sequence);
    if (tokens == 1 && sequence.generated() > 0) {
      step.decodeSequences++;
    } else {
      step.prefillTokens += tokens;
    }
  }

  private void preempt(Sequence victim) {
    releaseBlocks(victim);
    victim.computed = 0;
    victim.stored = 0;
    victim.scheduled = 0;
    victim.preemptions++;
    waiting.addFirst(victim);
    metrics.preempted(victim.request);
  }

  private void releaseBlocks(Sequence sequence) {
    sequence.running = false;
    pool.release(sequence.blocks.reversed());
    sequence.blocks.clear();
  }

  private int blocksFor(int tokens) {
    return (tokens + options.blockSize() - 1) / options.blockSize();
  }

  private long durationNanos(Step step) {
    if (step.isEmpty()) {
      return 0;
    }
    double overhead = options.stepOverheadMillis() / 1e3;
    double seconds = overhead + step.prefillTokens / options.prefillTokensPerSecond();
    if (step.decodeSequences > 0) {
      double lone = 1 / options.decodeTokensPerSecond();
      seconds += Math.max(0, lone - overhead);
      seconds += (step.decodeSequences - 1) * options.decodeSlowdown() * lone;
    }
    if (options.jitter() > 0) {
      jitterState += 0x9E3779B97F4A7C15L;
      double unit = (SeededNoise.mix(jitterState) >>> 11) * 0x1.0p-53;
      seconds *= 1 + options.jitter() * (2 * unit - 1);
    }
    return Math.round(seconds * 1e9);
  }

  private void publishGauges() {
    metrics.gauges(running.size(), waiting.size(), pool.usage());
  }
}
