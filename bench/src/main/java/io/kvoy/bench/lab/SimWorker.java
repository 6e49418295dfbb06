// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A vLLM-like engine in virtual time: waiting queue in order of arrival, chunked prefill within a
 * token budget per step, continuous batching, prefix cache with eviction, preemption of the
 * youngest when blocks run out.
 */
final class SimWorker implements BlockCache.Events {
  /** A request inside the engine. */
  private static final class Run {
    final SimRequest request;

    /** Tokens whose KV is there. */
    int computed;

    /**
     * Tokens to be computed before the next token comes: the prompt, and after a preemption all.
     */
    int target;

    int generated;

    /** Leading blocks that have a key in the cache and are held by this request. */
    int keyedBlocks;

    /** Blocks held without a key of their own. */
    int anonymousBlocks;

    /** For each full block whether this request holds it under its key. */
    boolean[] holdsKey;

    /** Tokens of this step. */
    int chunk;

    Run(SimRequest request) {
      this.request = request;
      this.target = request.promptTokens;
      this.holdsKey = new boolean[request.blockKeys.length];
    }

    boolean isPrefilling() {
      return computed < target;
    }
  }

  /** Hears about a step's cache changes at once. */
  interface CacheFeed {
    /**
     * @param nowStored for each key that changed in the step, whether the last event stored it
     */
    void changed(int worker, Map<Long, Boolean> nowStored);
  }

  final int index;
  private EngineProfile profile;
  private final VirtualTime time;
  private final CacheFeed feed;
  final BlockCache cache;
  private final ArrayDeque<Run> waiting = new ArrayDeque<>();
  private final List<Run> running = new ArrayList<>();
  private Map<Long, Boolean> changes = new HashMap<>();
  private boolean stepping;
  private double stepEndsMillis;
  private int epoch;
  private boolean isUp = true;
  private boolean isFailing;
  private long preemptions;

  SimWorker(int index, EngineProfile profile, VirtualTime time, CacheFeed feed) {
    this.index = index;
    this.profile = profile;
    this.time = time;
    this.feed = feed;
    this.cache = new BlockCache(profile.kvBlocks(), this);
  }

  @Override
  public void stored(long key) {
    changes.put(key, true);
  }

  @Override
  public void removed(long key) {
    changes.put(key, false);
  }

  /** Takes a request in; a worker that is down or failing ends it at once. */
  void submit(SimRequest request) {
    request.worker = index;
    if (!isUp || isFailing) {
      time.after(2, () -> fail(request));
      return;
    }
    waiting.add(new Run(request));
    if (!stepping) {
      step();
    }
  }

  private void fail(SimRequest request) {
    request.failed = true;
    request.endMillis = time.nowMillis();
    if (request.listener != null) {
      request.listener.ended(request);
    }
  }

  /** One engine step: decide, let its time pass, apply. */
  private void step() {
    int budget = profile.stepTokens();
    double prefillTokens = 0;
    double attention = 0;
    int decodes = 0;
    double context = 0;
    for (int i = 0; i < running.size(); i++) {
      Run run = running.get(i);
      if (run.isPrefilling()) {
        run.chunk = Math.min(budget, run.target - run.computed);
        publishFull(run);
        prefillTokens += run.chunk;
        attention += run.chunk * (run.computed + run.chunk / 2.0) / 1000;
        budget -= run.chunk;
      } else {
        while (needsBlock(run) && cache.available() == 0 && preemptLast(run)) {
          // Each round frees the youngest request's blocks.
        }
        if (i >= running.size()) {
          break;
        }
        if (needsBlock(run)) {
          cache.allocate(1);
          run.anonymousBlocks++;
        }
        run.chunk = 1;
        decodes++;
        context += run.computed;
        budget--;
      }
    }
    while (budget > 0 && running.size() < profile.maxRequests() && !waiting.isEmpty()) {
      Run run = waiting.element();
      if (!admit(run)) {
        break;
      }
      waiting.remove();
      running.add(run);
      run.chunk = Math.min(budget, run.target - run.computed);
      publishFull(run);
      prefillTokens += run.chunk;
      attention += run.chunk * (run.computed + run.chunk / 2.0) / 1000;
      budget -= run.chunk;
    }
    if (running.isEmpty()) {
      publishEvents();
      stepping = false;
      return;
    }
    stepping = true;
    int thisEpoch = epoch;
    stepEndsMillis =
        time.nowMillis() + profile.stepMillis(prefillTokens, attention, decodes, context);
    time.at(
        stepEndsMillis,
        () -> {
          if (epoch == thisEpoch) {
            apply();
            step();
          }
        });
  }

  private static boolean needsBlock(Run run) {
    return run.computed % BlockCache.BLOCK_TOKENS == 0;
  }

  /** Puts the youngest running request back into the queue; false when it is the asking one. */
  private boolean preemptLast(Run asking) {
    Run victim = running.removeLast();
    release(victim);
    victim.target = victim.request.promptTokens + victim.generated;
    victim.computed = 0;
    victim.keyedBlocks = 0;
    victim.holdsKey = new boolean[victim.holdsKey.length];
    waiting.addFirst(victim);
    preemptions++;
    return !victim.equals(asking);
  }

  /** Takes a request's whole prompt into the block table if it fits. */
  private boolean admit(Run run) {
    SimRequest request = run.request;
    int hits = cache.match(request);
    int blocks = Math.ceilDiv(run.target, BlockCache.BLOCK_TOKENS);
    int needed = blocks - hits + cache.idleAmong(request, hits);
    if (needed > cache.available()) {
      return false;
    }
    for (int i = 0; i < hits; i++) {
      cache.retain(request.blockKeys[i]);
      run.holdsKey[i] = true;
    }
    cache.allocate(blocks - hits);
    run.anonymousBlocks = blocks - hits;
    run.keyedBlocks = hits;
    run.computed = hits * BlockCache.BLOCK_TOKENS;
    if (run.generated == 0) {
      request.cachedTokens = run.computed;
    }
    return true;
  }

  private void apply() {
    double now = time.nowMillis();
    List<Run> finished = new ArrayList<>();
    for (Run run : running) {
      if (run.chunk == 0) {
        continue;
      }
      run.computed += run.chunk;
      run.chunk = 0;
      publishFull(run);
      if (!run.isPrefilling()) {
        run.generated++;
        if (run.generated == 1) {
          run.request.firstTokenMillis = now;
          if (run.request.listener != null) {
            run.request.listener.firstToken(run.request);
          }
        }
        if (run.generated >= run.request.outputTokens) {
          finished.add(run);
        }
      }
    }
    running.removeAll(finished);
    for (Run run : finished) {
      release(run);
      run.request.endMillis = now;
      if (run.request.listener != null) {
        run.request.listener.ended(run.request);
      }
    }
    publishEvents();
  }

  /**
   * Blocks get their key when they are scheduled, so a request admitted in the same step finds them
   * (vLLM 0.32, end of {@code allocate_slots} in {@code vllm/v1/core/kv_cache_manager.py}); the
   * events follow when the step is done.
   */
  private void publishFull(Run run) {
    int full =
        Math.min(
            (run.computed + run.chunk) / BlockCache.BLOCK_TOKENS, run.request.blockKeys.length);
    while (run.keyedBlocks < full) {
      int i = run.keyedBlocks++;
      if (cache.publish(run.request.blockKeys[i])) {
        run.holdsKey[i] = true;
        run.anonymousBlocks--;
      }
    }
  }

  /** Gives all blocks back, the last first, so that the tail is evicted before the prefix. */
  private void release(Run run) {
    for (int i = run.holdsKey.length - 1; i >= 0; i--) {
      if (run.holdsKey[i]) {
        cache.release(run.request.blockKeys[i]);
      }
    }
    cache.releaseAnonymous(run.anonymousBlocks);
    run.anonymousBlocks = 0;
  }

  private void publishEvents() {
    if (!changes.isEmpty()) {
      feed.changed(index, changes);
      changes = new HashMap<>();
    }
  }

  /** Process dies: everything on it fails, the cache is gone. */
  void stop() {
    isUp = false;
    crash();
  }

  private void crash() {
    epoch++;
    stepping = false;
    var lost = new ArrayList<Run>(running);
    lost.addAll(waiting);
    running.clear();
    waiting.clear();
    cache.clear();
    publishEvents();
    lost.forEach(run -> fail(run.request));
  }

  void start() {
    isUp = true;
  }

  void failing(boolean fails) {
    isFailing = fails;
  }

  void profile(EngineProfile other) {
    profile = other;
  }

  EngineProfile profile() {
    return profile;
  }

  int runningCount() {
    return running.size();
  }

  int waitingCount() {
    return waiting.size();
  }

  int inFlight() {
    return running.size() + waiting.size();
  }

  long preemptions() {
    return preemptions;
  }

  double kvUsage() {
    return 1 - cache.available() / (double) cache.capacity();
  }

  /**
   * What a request would wait for its first token if it came at this instant and nobody after it:
   * the greedy oracle's knowledge. Exact but for blocks that are short.
   */
  double oracleTtftMillis(SimRequest request) {
    double ahead = 0;
    double attention = 0;
    int decodes = 0;
    double context = 0;
    var coming = new HashSet<Long>();
    for (Run run : running) {
      if (run.isPrefilling()) {
        double left = Math.max(0, run.target - run.computed - run.chunk);
        ahead += left;
        attention += left * (run.computed + left / 2) / 1000;
        addKeys(coming, run.request);
      } else {
        decodes++;
        context += run.computed;
      }
    }
    for (Run run : waiting) {
      int cached = known(run.request, coming) * BlockCache.BLOCK_TOKENS;
      double left = Math.max(0, run.target - cached);
      ahead += left;
      attention += left * (cached + left / 2) / 1000;
      addKeys(coming, run.request);
    }
    int cached = known(request, coming) * BlockCache.BLOCK_TOKENS;
    double own = request.promptTokens - (double) cached;
    attention += own * (cached + own / 2) / 1000;
    double tokens = ahead + own;
    double steps = Math.max(1, Math.ceil(tokens / Math.max(1, profile.stepTokens() - decodes)));
    double residual = stepping ? stepEndsMillis - time.nowMillis() : 0;
    return residual
        + profile.perPrefillTokenMillis() * tokens
        + profile.perAttentionMillis() * attention
        + steps * profile.stepMillis(0, 0, decodes, context);
  }

  /** The uncached tokens that the request would add here. */
  double oracleUncachedTokens(SimRequest request) {
    var coming = new HashSet<Long>();
    running.forEach(run -> addKeys(coming, run.request));
    waiting.forEach(run -> addKeys(coming, run.request));
    return request.promptTokens - (double) known(request, coming) * BlockCache.BLOCK_TOKENS;
  }

  private static void addKeys(Set<Long> keys, SimRequest request) {
    for (int i = 0; i < request.cacheableBlocks(); i++) {
      keys.add(request.blockKeys[i]);
    }
  }

  private int known(SimRequest request, Set<Long> coming) {
    int blocks = request.cacheableBlocks();
    int found = 0;
    while (found < blocks
        && (cache.contains(request.blockKeys[found])
            || coming.contains(request.blockKeys[found]))) {
      found++;
    }
    return found;
  }
}
