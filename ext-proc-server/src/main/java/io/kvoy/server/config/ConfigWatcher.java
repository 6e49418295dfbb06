// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.server.config.ConfigLoader.FileCheck;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps the configuration in force equal to the file as long as the file is right.
 *
 * <p>Reads the bytes through the path every {@code interval} and compares their hash. That sees
 * every way in which files change, symlinks that Kubernetes swaps and editors that rename included,
 * where modification times and file system events miss some; the file is a few KiB. A change must
 * read the same at two looks {@code settle} apart before it is loaded, so that a file half written
 * is not taken for a wrong one.
 *
 * <p>A right file replaces the one in force in one volatile write before the listener hears of it.
 * A wrong or missing one changes nothing; it is reported once per content, not once per look.
 *
 * <p>One thread of its own, or {@link #poll} by hand. The listener is called on that thread, one
 * event at a time; an exception from it is logged and ends neither the thread nor the reload.
 */
public final class ConfigWatcher implements AutoCloseable {
  /** Time between two looks that a person who saved a file does not notice. */
  public static final Duration DEFAULT_INTERVAL = Duration.ofMillis(500);

  /** Longer than an editor or a copy takes from the first byte to the last. */
  public static final Duration DEFAULT_SETTLE = Duration.ofMillis(200);

  private static final Logger log = LoggerFactory.getLogger(ConfigWatcher.class);

  /** Stands for a file that cannot be read; no hash of bytes looks like it. */
  private static final String UNREADABLE = "unreadable";

  private final Path file;
  private final FileCheck files;
  private final UnaryOperator<KvoyConfig> overrides;
  private final Consumer<ConfigEvent> listener;
  private final Duration interval;
  private final Duration settle;
  private final LongSupplier nanoClock;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition closing = lock.newCondition();

  // Written by the thread that polls, read by debug pages and gauges.
  private volatile ConfigStatus status;

  /** Content that was last judged, right or wrong. */
  private String judgedHash;

  /** Content that differs from the judged one and has yet to settle. */
  private @Nullable String pendingHash;

  private long pendingSinceNanos;

  @GuardedBy("lock")
  private @Nullable Thread thread;

  @GuardedBy("lock")
  private boolean isClosed;

  /**
   * Watches with the default times; call {@link #start}.
   *
   * @param initial the file in force; its source is watched
   * @param files whether tokenizer folders must exist, as at start
   */
  public ConfigWatcher(KvoyConfigFile initial, FileCheck files, Consumer<ConfigEvent> listener) {
    this(initial, files, config -> config, listener);
  }

  /**
   * The same where the command line has a say.
   *
   * @param initial with the command line's say in it
   * @param overrides that say, for every file that is read from now on
   */
  public ConfigWatcher(
      KvoyConfigFile initial,
      FileCheck files,
      UnaryOperator<KvoyConfig> overrides,
      Consumer<ConfigEvent> listener) {
    this(initial, files, overrides, listener, DEFAULT_INTERVAL, DEFAULT_SETTLE, System::nanoTime);
  }

  ConfigWatcher(
      KvoyConfigFile initial,
      FileCheck files,
      Consumer<ConfigEvent> listener,
      Duration interval,
      Duration settle,
      LongSupplier nanoClock) {
    this(initial, files, config -> config, listener, interval, settle, nanoClock);
  }

  private ConfigWatcher(
      KvoyConfigFile initial,
      FileCheck files,
      UnaryOperator<KvoyConfig> overrides,
      Consumer<ConfigEvent> listener,
      Duration interval,
      Duration settle,
      LongSupplier nanoClock) {
    this.overrides = overrides;
    this.file = initial.source();
    this.files = files;
    this.listener = listener;
    this.interval = interval;
    this.settle = settle;
    this.nanoClock = nanoClock;
    this.judgedHash = initial.contentHash();
    this.status = new ConfigStatus(initial, nanoClock.getAsLong(), 0, 0, List.of());
  }

  /** What is in force and what was refused. */
  public ConfigStatus status() {
    return status;
  }

  /** Seconds since the configuration in force was loaded. */
  public double ageSeconds() {
    return (nanoClock.getAsLong() - status.loadedAtNanos()) / 1e9;
  }

  /** Starts looking; once. */
  public void start() {
    lock.lock();
    try {
      if (thread != null || isClosed) {
        throw new IllegalStateException("a watcher starts once");
      }
      thread = Thread.ofPlatform().daemon().name("kvoy-config-watcher").start(this::run);
    } finally {
      lock.unlock();
    }
  }

  private void run() {
    while (true) {
      lock.lock();
      try {
        long left = interval.toNanos();
        while (left > 0 && !isClosed) {
          left = closing.awaitNanos(left);
        }
        if (isClosed) {
          return;
        }
      } catch (InterruptedException _) {
        return;
      } finally {
        lock.unlock();
      }
      try {
        poll();
      } catch (RuntimeException e) {
        log.atError().setCause(e).log("looking at the configuration file failed");
      }
    }
  }

  /** Looks once. Not for two threads at a time. */
  public void poll() {
    ConfigLoader.FileRead read = ConfigLoader.read(file);
    String hash =
        switch (read) {
          case ConfigLoader.FileRead.Content(byte[] bytes) -> ConfigLoader.hash(bytes);
          case ConfigLoader.FileRead.Failed _ -> UNREADABLE;
        };
    long now = nanoClock.getAsLong();
    if (hash.equals(judgedHash)) {
      pendingHash = null;
      if (awaitsFiles() && judge(read) instanceof ConfigResult.Loaded loaded) {
        take(loaded.file(), now);
      }
      return;
    }
    if (!hash.equals(pendingHash)) {
      pendingHash = hash;
      pendingSinceNanos = now;
    }
    if (now - pendingSinceNanos < settle.toNanos()) {
      return;
    }
    pendingHash = null;
    judgedHash = hash;
    switch (judge(read)) {
      case ConfigResult.Loaded(KvoyConfigFile current) -> take(current, now);
      case ConfigResult.Rejected(List<ConfigProblem> problems) -> refuse(problems);
    }
  }

  /** Whether the file on disk was refused for files it names, which may have come since. */
  private boolean awaitsFiles() {
    return status.problems().stream()
        .anyMatch(problem -> problem.kind() == ConfigProblem.Kind.FILE_NOT_FOUND);
  }

  private ConfigResult judge(ConfigLoader.FileRead read) {
    return switch (read) {
      case ConfigLoader.FileRead.Content(byte[] bytes) ->
          switch (ConfigLoader.parse(bytes, file, files)) {
            case ConfigResult.Loaded(KvoyConfigFile parsed) ->
                new ConfigResult.Loaded(parsed.with(overrides.apply(parsed.config())));
            case ConfigResult.Rejected rejected -> rejected;
          };
      case ConfigLoader.FileRead.Failed(ConfigProblem problem) ->
          new ConfigResult.Rejected(List.of(problem));
    };
  }

  private void take(KvoyConfigFile current, long now) {
    ConfigStatus before = status;
    if (current.contentHash().equals(before.inForce().contentHash())) {
      status =
          new ConfigStatus(
              before.inForce(),
              before.loadedAtNanos(),
              before.reloads(),
              before.rejections(),
              List.of());
      log.atInfo().addKeyValue("file", file).log("the configuration in force is back on disk");
      return;
    }
    status = new ConfigStatus(current, now, before.reloads() + 1, before.rejections(), List.of());
    List<String> waiting = RestartFields.changed(before.inForce().config(), current.config());
    log.atInfo()
        .addKeyValue("file", file)
        .addKeyValue("pools", current.pools().size())
        .addKeyValue("waiting_for_restart", String.join(",", waiting))
        .log("configuration reloaded");
    tell(new ConfigEvent.Reloaded(before.inForce(), current, waiting));
  }

  private void refuse(List<ConfigProblem> problems) {
    ConfigStatus before = status;
    status =
        new ConfigStatus(
            before.inForce(),
            before.loadedAtNanos(),
            before.reloads(),
            before.rejections() + 1,
            problems);
    log.atWarn()
        .addKeyValue("file", file)
        .addKeyValue("problems", problems.size())
        .addKeyValue("first", problems.getFirst().message())
        .log("configuration refused, the last right one stays in force");
    tell(new ConfigEvent.ReloadRejected(before.inForce(), problems));
  }

  private void tell(ConfigEvent event) {
    try {
      listener.accept(event);
    } catch (RuntimeException e) {
      log.atError()
          .setCause(e)
          .addKeyValue("event", event.getClass().getSimpleName())
          .log("a listener of the configuration failed");
    }
  }

  /** Stops looking; waits for a look under way, at most a few seconds. */
  @Override
  public void close() {
    Thread running;
    lock.lock();
    try {
      isClosed = true;
      closing.signalAll();
      running = thread;
    } finally {
      lock.unlock();
    }
    if (running == null || running.equals(Thread.currentThread())) {
      return;
    }
    try {
      if (!running.join(Duration.ofNanos(TimeUnit.SECONDS.toNanos(5)))) {
        log.atError().log("the configuration watcher does not stop");
      }
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
  }
}
