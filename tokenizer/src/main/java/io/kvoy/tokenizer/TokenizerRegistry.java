// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.TokenizerLoader.Load;
import io.kvoy.tokenizer.files.FolderFingerprint;
import io.kvoy.tokenizer.files.FolderProblem;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All models' tokenizers: which folder each model uses, loaded in the background, replaced without
 * a pause, tried again while missing.
 *
 * <p>{@code tokenize} and {@link #statuses} may be called from any thread and never wait: they read
 * two volatile fields. {@link #update} may be called from any thread. One loader thread does the
 * loading, one folder after the other, so that a start with many models does not take the cores
 * from requests; {@link #doWork} is one round of it and can be run by hand instead of {@link
 * #start}. Models that share a folder share its tokenizer.
 *
 * <p>A folder that fails is tried again after 1, 2, 4, … seconds up to a minute, and logged once
 * per period. A folder that was loaded is looked at now and then; when its files changed it is
 * loaded again, and the earlier tokenizer answers until the new one is ready. Nothing here throws
 * because of a folder.
 */
public final class TokenizerRegistry implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(TokenizerRegistry.class);

  /**
   * Times of the loader.
   *
   * @param firstRetry pause after the first failure of a folder, doubled for each further one
   * @param maxRetry longest pause after a failure
   * @param logPeriod a folder that stays broken for the same reason is logged at most once in this
   *     time
   * @param checkFiles how often the files of a loaded folder are compared with what was loaded
   */
  public record Timing(
      Duration firstRetry, Duration maxRetry, Duration logPeriod, Duration checkFiles) {

    public static final Timing DEFAULT =
        new Timing(
            Duration.ofSeconds(1),
            Duration.ofMinutes(1),
            Duration.ofMinutes(10),
            Duration.ofSeconds(30));

    Duration retryAfter(int failures) {
      long factor = 1L << Math.min(failures - 1, 20);
      Duration pause = firstRetry.multipliedBy(factor);
      return pause.compareTo(maxRetry) < 0 ? pause : maxRetry;
    }
  }

  private static final Tokenization NO_TOKENIZER = new Tokenization.Unavailable("no_tokenizer");
  private static final Tokenization LOADING = new Tokenization.Unavailable("tokenizer_loading");
  private static final Tokenization FAILED = new Tokenization.Unavailable("tokenizer_failed");
  private static final Tokenization MISMATCH = new Tokenization.Unavailable("tokenizer_mismatch");

  private final TokenizerLoader loader;
  private final InstantSource clock;
  private final Timing timing;
  private final TokenizerListener listener;
  private final Set<String> mismatched = ConcurrentHashMap.newKeySet();

  /** Replaced as a whole by {@link #update}; volatile because requests read it without a lock. */
  private volatile Map<String, Slot> slotsByModel = Map.of();

  /** Volatile because {@link #close} is called from another thread than the loader's. */
  private volatile boolean closed;

  private volatile @Nullable Thread thread;

  public TokenizerRegistry(TokenizerLoader loader, InstantSource clock, Timing timing) {
    this(loader, clock, timing, TokenizerListener.SILENT);
  }

  public TokenizerRegistry(
      TokenizerLoader loader, InstantSource clock, Timing timing, TokenizerListener listener) {
    this.loader = loader;
    this.clock = clock;
    this.timing = timing;
    this.listener = listener;
  }

  /**
   * Says which models there are and where their tokenizers lie; replaces what was said before.
   * Models whose source stays the same keep their tokenizer. One whose source changes is answered
   * by the earlier tokenizer until the new one is loaded.
   */
  public synchronized void update(Map<String, TokenizerSource> sourcesByModel) {
    var known = new HashMap<TokenizerSource, Slot>();
    slotsByModel.values().forEach(slot -> known.put(slot.source, slot));
    var slots = new HashMap<String, Slot>();
    sourcesByModel.forEach(
        (model, source) -> {
          Slot earlier = slotsByModel.get(model);
          slots.put(
              model, known.computeIfAbsent(source, s -> new Slot(s, clock.instant(), earlier)));
        });
    slotsByModel = Map.copyOf(slots);
    mismatched.retainAll(slots.keySet());
    wake();
  }

  /**
   * Ids for that model's prompt, by the tokenizer that is ready at this moment. Never waits, never
   * throws.
   */
  public Tokenization tokenize(String model, Prompt prompt) {
    return tokenize(model, tokenizer -> tokenizer.tokenize(prompt));
  }

  /** The same for a request, cut where it asks for it. */
  public Tokenization tokenize(String model, InferenceRequest request) {
    return tokenize(model, tokenizer -> tokenizer.tokenize(request));
  }

  private Tokenization tokenize(String model, Function<PromptTokenizer, Tokenization> use) {
    Slot slot = slotsByModel.get(model);
    if (slot == null) {
      return NO_TOKENIZER;
    }
    return mismatched.contains(model) ? MISMATCH : slot.tokenize(use);
  }

  /**
   * The same as {@link #tokenize(String, Prompt)}, even while the ids are known to be others than
   * the worker's: for whoever compares the two.
   */
  public Tokenization tokenizeToCompare(String model, Prompt prompt) {
    Slot slot = slotsByModel.get(model);
    return slot == null ? NO_TOKENIZER : slot.tokenize(tokenizer -> tokenizer.tokenize(prompt));
  }

  /** Memory of that model's tokenizer by estimate; 0 while there is none. */
  public long memoryBytes(String model) {
    Slot slot = slotsByModel.get(model);
    PromptTokenizer tokenizer = slot == null ? null : slot.tokenizer;
    return tokenizer == null ? 0 : tokenizer.memoryBytes();
  }

  /** The same as {@code tokenize} for one model, whatever happens to its folder later. */
  public PromptTokenizer forModel(String model) {
    return new PromptTokenizer() {
      @Override
      public Tokenization tokenize(Prompt prompt) {
        return TokenizerRegistry.this.tokenize(model, prompt);
      }

      @Override
      public Tokenization tokenize(InferenceRequest request) {
        return TokenizerRegistry.this.tokenize(model, request);
      }
    };
  }

  /**
   * Says whether a worker of this model computes the same ids. While it does not, requests get
   * {@code tokenizer_mismatch} instead of ids that would be wrong.
   */
  public void setMatchesWorker(String model, boolean matches) {
    if (matches) {
      mismatched.remove(model);
    } else if (slotsByModel.containsKey(model)) {
      mismatched.add(model);
    }
  }

  /** State of each model, sorted by name. */
  public SortedMap<String, TokenizerStatus> statuses() {
    var statuses = new TreeMap<String, TokenizerStatus>();
    slotsByModel.forEach(
        (model, slot) ->
            statuses.put(
                model,
                mismatched.contains(model)
                    ? new TokenizerStatus.Mismatch(slot.source.folder())
                    : slot.status));
    return statuses;
  }

  /** Starts the loader thread. Call once. */
  public synchronized void start() {
    if (thread != null) {
      throw new IllegalStateException("already started");
    }
    thread = Thread.ofPlatform().name("tokenizer-loader").daemon().start(this::run);
  }

  private void run() {
    while (!closed) {
      Duration pause = doWork();
      if (!pause.isZero()) {
        LockSupport.parkNanos(this, pause.toNanos());
      }
    }
  }

  private void wake() {
    Thread loaderThread = thread;
    if (loaderThread != null) {
      LockSupport.unpark(loaderThread);
    }
  }

  /**
   * One round: loads the folders that are due. Only the loader thread calls it, or the one thread
   * of somebody who never called {@link #start}.
   *
   * @return how long nothing will be due, unless {@link #update} is called
   */
  public Duration doWork() {
    Duration pause = timing.checkFiles;
    for (Slot slot : Set.copyOf(slotsByModel.values())) {
      if (closed) {
        return Duration.ZERO;
      }
      if (!clock.instant().isBefore(slot.nextDue)) {
        slot.work();
      }
      Duration untilDue = Duration.between(clock.instant(), slot.nextDue);
      pause = untilDue.compareTo(pause) < 0 ? untilDue : pause;
    }
    return pause.isNegative() ? Duration.ZERO : pause;
  }

  /** Stops the loader; loaded tokenizers go on answering. Idempotent. */
  @Override
  public void close() {
    closed = true;
    wake();
  }

  private SortedSet<String> modelsOf(Slot slot) {
    var models = new TreeSet<String>();
    slotsByModel.forEach(
        (model, candidate) -> {
          if (candidate == slot) {
            models.add(model);
          }
        });
    return models;
  }

  /**
   * One folder. Requests read the volatile fields; everything else belongs to the loader thread.
   */
  private final class Slot {
    private final TokenizerSource source;
    private final Path folder;

    /** Null until the first load went well, of this source or of one that it replaces. */
    private volatile @Nullable PromptTokenizer tokenizer;

    private volatile TokenizerStatus status;

    private Instant nextDue;
    private @Nullable FolderFingerprint loaded;
    private int failures;
    private @Nullable FolderProblem loggedProblem;
    private Instant loggedAt = Instant.MIN;

    /**
     * @param replaced what served the same model before; null when nothing did
     */
    Slot(TokenizerSource source, Instant created, @Nullable Slot replaced) {
      this.source = source;
      this.folder = source.folder();
      this.tokenizer = replaced == null ? null : replaced.tokenizer;
      this.status =
          replaced != null && replaced.status instanceof TokenizerStatus.Ready earlier
              ? earlier
              : new TokenizerStatus.Loading(folder);
      this.nextDue = created;
    }

    Tokenization tokenize(Function<PromptTokenizer, Tokenization> use) {
      PromptTokenizer present = tokenizer;
      if (present != null) {
        return use.apply(present);
      }
      return status instanceof TokenizerStatus.Failed ? FAILED : LOADING;
    }

    void work() {
      FolderFingerprint seen = FolderFingerprint.of(folder, source.chatTemplate());
      if (failures == 0 && seen.equals(loaded)) {
        nextDue = clock.instant().plus(timing.checkFiles);
        return;
      }
      switch (load()) {
        case Load.Loaded(PromptTokenizer fresh, String encoder) -> ready(fresh, encoder, seen);
        case Load.Failed(FolderProblem problem) -> failed(problem);
      }
    }

    private Load load() {
      try {
        return loader.load(source);
      } catch (RuntimeException | Error e) {
        // One folder's trouble, memory included, must not end the thread that serves all others.
        return new Load.Failed(
            new FolderProblem(
                FolderProblem.Kind.UNSUPPORTED,
                folder,
                "loading ended with " + e.getClass().getName(),
                "report this together with the name of the model"));
      }
    }

    private void ready(PromptTokenizer fresh, String encoder, FolderFingerprint seen) {
      Instant now = clock.instant();
      tokenizer = fresh;
      status = new TokenizerStatus.Ready(folder, encoder, now, Optional.empty());
      loaded = seen;
      failures = 0;
      loggedProblem = null;
      nextDue = now.plus(timing.checkFiles);
      SortedSet<String> models = modelsOf(this);
      LOG.info("tokenizer_ready models={} folder={} encoder={}", models, folder, encoder);
      listener.loaded(models, encoder);
    }

    private void failed(FolderProblem problem) {
      Instant now = clock.instant();
      failures++;
      nextDue = now.plus(timing.retryAfter(failures));
      status =
          status instanceof TokenizerStatus.Ready(Path served, String encoder, Instant since, _)
              ? new TokenizerStatus.Ready(served, encoder, since, Optional.of(problem))
              : new TokenizerStatus.Failed(folder, problem, failures, nextDue);
      listener.failed(modelsOf(this), problem, tokenizer != null);
      if (!problem.equals(loggedProblem) || !now.isBefore(loggedAt.plus(timing.logPeriod))) {
        loggedProblem = problem;
        loggedAt = now;
        LOG.warn(
            "tokenizer_unavailable models={} attempts={} kind={} problem=\"{}\" effect=\"{}\"",
            modelsOf(this),
            failures,
            problem.kind(),
            problem.oneLine(),
            tokenizer == null
                ? "these models are routed by load alone"
                : "the tokenizer loaded earlier goes on");
      }
    }
  }
}
