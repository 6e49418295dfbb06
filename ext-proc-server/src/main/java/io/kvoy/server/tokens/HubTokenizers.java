// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.server.config.ModelPool.HubTokenizer;
import io.kvoy.server.log.OncePer;
import java.net.http.HttpClient;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the tokenizers of hub repositories on disk: fetched in the background, tried again with
 * back-off, looked at now and then where the revision is a branch. What is in the cache serves at
 * once and needs no hub.
 *
 * <p>{@link #update}, {@link #folder} and {@link #state} may be called from any thread and never
 * wait for the hub. One thread fetches, one repository after the other; {@link #doWork} is one
 * round of it and can be run by hand instead of {@link #start}.
 */
public final class HubTokenizers implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(HubTokenizers.class);

  private static final Duration FIRST_RETRY = Duration.ofSeconds(1);
  private static final Duration MAX_RETRY = Duration.ofMinutes(5);

  /** A hub may ask for patience, but not for more than this. */
  private static final Duration MAX_ASKED = Duration.ofHours(1);

  private final HubSettings settings;
  private final HubCache cache;
  private final HubFetch fetch;
  private final HttpClient http;
  private final InstantSource clock;
  private final Consumer<String> results;
  private final OncePer once;

  /** Told that a folder has changed; set once before the start. */
  private final Runnable onChange;

  /** Replaced as a whole by {@link #update}; volatile as readers take no lock. */
  private volatile Map<HubTokenizer, Entry> entries = Map.of();

  private volatile boolean closed;
  private volatile @Nullable Thread thread;

  /** State of one revision of a repository. */
  public sealed interface State {

    /** The first attempt is under way or waits for its turn. */
    record Fetching() implements State {}

    /**
     * On disk.
     *
     * @param lastProblem why the latest look at the hub failed, empty when it did not
     */
    record Present(Path folder, String commit, String lastProblem) implements State {}

    /**
     * Not to be had; tried again.
     *
     * @param problem one line for people
     */
    record Failed(String problem, int attempts, Instant nextTry) implements State {}
  }

  /**
   * One repository and revision. The state is written by the fetching thread and read by all; the
   * other fields belong to the fetching thread.
   */
  private static final class Entry {
    final HubTokenizer wanted;
    volatile State state;
    Instant nextDue;
    int failures;

    Entry(HubTokenizer wanted, State state, Instant nextDue) {
      this.wanted = wanted;
      this.state = state;
      this.nextDue = nextDue;
    }
  }

  /**
   * @param results told a word for every attempt: {@code fetched}, {@code unchanged} or why it
   *     failed
   * @param repeatPeriod at most one log line per cause in this time
   * @param onChange called on the fetching thread when {@link #folder} answers something new
   */
  public HubTokenizers(
      HubSettings settings,
      InstantSource clock,
      Consumer<String> results,
      Duration repeatPeriod,
      Runnable onChange) {
    this.settings = settings;
    this.clock = clock;
    this.results = results;
    this.once = new OncePer(LOG, repeatPeriod, System::nanoTime);
    this.onChange = onChange;
    this.cache = new HubCache(settings.cache());
    this.http =
        HttpClient.newBuilder()
            .followRedirects(HttpClient.Redirect.NEVER)
            .connectTimeout(settings.timeout())
            .build();
    this.fetch = new HubFetch(settings, cache, http);
  }

  /** Says which are wanted; replaces what was said before. Looks into the cache, not at the hub. */
  public synchronized void update(Set<HubTokenizer> wanted) {
    Map<HubTokenizer, Entry> next = new HashMap<>();
    for (HubTokenizer each : new HashSet<>(wanted)) {
      Entry known = entries.get(each);
      next.put(each, known == null ? fresh(each) : known);
    }
    entries = Map.copyOf(next);
    Thread fetching = thread;
    if (fetching != null) {
      LockSupport.unpark(fetching);
    }
  }

  private Entry fresh(HubTokenizer wanted) {
    Optional<Path> folder = cache.whole(wanted);
    if (folder.isEmpty()) {
      return new Entry(wanted, new State.Fetching(), clock.instant());
    }
    String commit = cache.commitOf(wanted).orElseThrow();
    boolean isFixed = commit.equals(wanted.revision());
    return new Entry(
        wanted,
        new State.Present(folder.get(), commit, ""),
        isFixed && cache.isChecked(wanted, commit) ? Instant.MAX : clock.instant());
  }

  /** Where the files lie; empty while they are not there. */
  public Optional<Path> folder(HubTokenizer wanted) {
    return state(wanted) instanceof State.Present present
        ? Optional.of(present.folder())
        : Optional.empty();
  }

  /** How it stands with one that is wanted. */
  public State state(HubTokenizer wanted) {
    Entry entry = entries.get(wanted);
    return entry == null ? new State.Fetching() : entry.state;
  }

  /** Starts the fetching thread. Call once. */
  public synchronized void start() {
    if (thread != null) {
      throw new IllegalStateException("already started");
    }
    thread = Thread.ofPlatform().name("kvoy-hub").daemon().start(this::run);
  }

  private void run() {
    while (!closed) {
      try {
        Duration pause = doWork();
        if (!pause.isZero()) {
          LockSupport.parkNanos(this, pause.toNanos());
        }
      } catch (InterruptedException _) {
        return;
      } catch (RuntimeException bug) {
        LOG.error("hub_fetch_failed", bug);
        LockSupport.parkNanos(this, MAX_RETRY.toNanos());
      }
    }
  }

  /**
   * One round: fetches what is due.
   *
   * @return how long nothing will be due, unless {@link #update} is called
   */
  public Duration doWork() throws InterruptedException {
    Duration pause = settings.refresh();
    for (Entry entry : entries.values()) {
      if (closed) {
        return Duration.ZERO;
      }
      if (!clock.instant().isBefore(entry.nextDue)) {
        work(entry);
      }
      if (!entry.nextDue.equals(Instant.MAX)) {
        Duration untilDue = Duration.between(clock.instant(), entry.nextDue);
        pause = untilDue.compareTo(pause) < 0 ? untilDue : pause;
      }
    }
    return pause.isNegative() ? Duration.ZERO : pause;
  }

  private void work(Entry entry) throws InterruptedException {
    HubTokenizer wanted = entry.wanted;
    switch (fetch.fetch(wanted)) {
      case HubFetch.Result.Present(Path folder, String commit, boolean isFresh) -> {
        results.accept(isFresh ? "fetched" : "unchanged");
        entry.failures = 0;
        boolean isFixed = commit.equals(wanted.revision());
        entry.nextDue = isFixed ? Instant.MAX : clock.instant().plus(settings.refresh());
        boolean changed =
            !(entry.state instanceof State.Present before && before.folder().equals(folder));
        entry.state = new State.Present(folder, commit, "");
        if (changed) {
          LOG.info(
              "hub_tokenizer_present repository={} revision={} commit={} fetched={}",
              wanted.repository(),
              wanted.revision(),
              commit,
              isFresh);
          onChange.run();
        }
      }
      case HubFetch.Result.Failed failed -> failed(entry, failed);
    }
  }

  private void failed(Entry entry, HubFetch.Result.Failed failed) {
    results.accept(failed.reason());
    entry.failures++;
    entry.nextDue = clock.instant().plus(pause(entry.failures, failed.retryAfter()));
    entry.state =
        entry.state instanceof State.Present(Path folder, String commit, _)
            ? new State.Present(folder, commit, failed.what())
            : new State.Failed(failed.what(), entry.failures, entry.nextDue);
    once.warn(
        "hub_tokenizer_unavailable",
        entry.wanted.repository() + "@" + entry.wanted.revision() + " " + failed.reason(),
        "problem",
        failed.what(),
        "attempts",
        entry.failures,
        "effect",
        entry.state instanceof State.Present
            ? "the files in the cache go on"
            : "its pools are routed by load alone");
  }

  static Duration pause(int failures, Duration asked) {
    Duration own = FIRST_RETRY.multipliedBy(1L << Math.min(failures - 1, 20));
    Duration bounded = own.compareTo(MAX_RETRY) < 0 ? own : MAX_RETRY;
    Duration wanted = asked.compareTo(MAX_ASKED) < 0 ? asked : MAX_ASKED;
    return wanted.compareTo(bounded) > 0 ? wanted : bounded;
  }

  /** Stops fetching; what is on disk stays. Idempotent. */
  @Override
  public void close() {
    closed = true;
    Thread fetching = thread;
    if (fetching != null) {
      fetching.interrupt();
    }
    http.shutdownNow();
  }
}
