// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.inference.ApiKind;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;

/**
 * A simulated vLLM worker, as a program ({@code --help} tells the options) and inside a test:
 *
 * <pre>{@code
 * try (SimWorker worker = SimWorker.start(SimOptions.of("m"))) {
 *   … http://127.0.0.1:worker.port() …
 *   worker.restart();
 * }
 * }</pre>
 *
 * <p>A worker goes through lives: {@link #crash} ends one the hard way, {@link #up} begins the next
 * one on the same ports with an empty cache, {@link #restart} does both. Every control method is
 * also an HTTP call, see {@link ControlApi}. Thread-safe.
 */
public final class SimWorker implements AutoCloseable {
  /** How long a port of the last life may stay taken before {@link #up} gives up. */
  private static final long REBIND_MILLIS = 5000;

  private final SimTokenizer tokenizer;
  private final WordModel words;
  private final Map<String, EngineRequest.Lora> loras;
  private final FaultPlan faults = new FaultPlan();
  private final @Nullable HttpServer control;
  private final Object lifecycle = new Object();

  // Ports become real with the first life and stay.
  @GuardedBy("lifecycle")
  private SimOptions options;

  // One per data parallel rank.
  @GuardedBy("lifecycle")
  private List<EventOptions> events;

  @GuardedBy("lifecycle")
  private long lives;

  @GuardedBy("lifecycle")
  private @Nullable HttpServer http;

  // Volatile: set under the lock, read by every request.
  private volatile @Nullable Running running;

  /** What requests of one life need. */
  private record Running(
      SimOptions options, WorkerLife life, GenerationApi generation, ServerPages pages) {}

  private SimWorker(SimOptions options) throws IOException {
    this.options = options;
    events =
        IntStream.range(0, options.dataParallelSize()).mapToObj(options.events()::forRank).toList();
    tokenizer = Objects.requireNonNullElseGet(options.tokenizer(), WordTokenizer::new);
    words = new WordModel(tokenizer, options.seed(), options.meanAnswerTokens());
    loras = WorkerLife.loras(options);
    if (options.controlPort() < 0) {
      control = null;
    } else {
      ControlApi api = new ControlApi(this, false);
      control =
          new HttpServer(
              options.model() + "-control",
              options.host(),
              options.controlPort(),
              Duration.ofMillis(options.keepAliveMillis()),
              exchange -> {
                if (!api.handle(exchange)) {
                  ControlApi.notFound(exchange);
                }
              });
      control.start();
    }
  }

  /** Starts a worker; when this returns it answers. Throws when a port is taken. */
  public static SimWorker start(SimOptions options) {
    try {
      SimWorker worker = new SimWorker(options);
      worker.up();
      return worker;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static void main(String... args) {
    System.exit(new CommandLine(new SimProgram()).execute(args));
  }

  /** HTTP port; stays the same over all lives. */
  public int port() {
    synchronized (lifecycle) {
      return options.port();
    }
  }

  /** Port of the control listener, -1 without one. */
  public int controlPort() {
    HttpServer listener = control;
    return listener == null ? -1 : listener.port();
  }

  /** Address for a SUB socket on this machine, empty without events. */
  public String eventEndpoint() {
    return eventEndpoint(0);
  }

  /** As {@link #eventEndpoint()}, of one data parallel rank. */
  public String eventEndpoint(int rank) {
    synchronized (lifecycle) {
      return EventOptions.connectable(events.get(rank).endpoint());
    }
  }

  /** Address for a DEALER socket on this machine, empty without replay. */
  public String replayEndpoint() {
    return replayEndpoint(0);
  }

  /** As {@link #replayEndpoint()}, of one data parallel rank. */
  public String replayEndpoint(int rank) {
    synchronized (lifecycle) {
      return EventOptions.connectable(events.get(rank).replayEndpoint());
    }
  }

  /** Failures for the next requests. */
  public FaultPlan faults() {
    return faults;
  }

  public boolean isUp() {
    return running != null;
  }

  /** The engine stops between two instants; requests hang. */
  public void pause() {
    life().ranks().forEach(rank -> rank.loop().pause());
  }

  public void resume() {
    life().ranks().forEach(rank -> rank.loop().resume());
  }

  /** Every engine step takes this many times as long, until told otherwise or restarted. */
  public void slowdown(double factor) {
    life().ranks().forEach(rank -> rank.loop().slowdown(factor));
  }

  /**
   * The next event batches of each rank do not reach subscribers, though their sequence numbers are
   * used up.
   *
   * @param fromReplayToo whether a replay cannot bring them back either
   */
  public void dropEventBatches(int count, boolean fromReplayToo) {
    for (WorkerLife.Rank rank : life().ranks()) {
      KvEventPublisher publisher = rank.publisher();
      if (publisher == null) {
        throw new IllegalStateException("this worker publishes no events");
      }
      publisher.drop(count, fromReplayToo);
    }
  }

  /** Ends this life like a killed process: listeners closed, connections reset, nothing said. */
  public void crash() {
    synchronized (lifecycle) {
      HttpServer listener = http;
      if (listener != null) {
        listener.close();
        http = null;
      }
      Running ending = running;
      running = null;
      if (ending != null) {
        ending.life().close();
      }
    }
  }

  /** Begins a life, if there is none. */
  public void up() {
    synchronized (lifecycle) {
      if (running != null) {
        return;
      }
      lives++;
      try {
        begin(lives);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  @GuardedBy("lifecycle")
  private void begin(long number) throws IOException {
    SimOptions wanted = options;
    List<EventOptions> wantedEvents = events;
    WorkerLife life = rebinding(() -> new WorkerLife(wanted, wantedEvents, words, number));
    HttpServer listener;
    try {
      listener =
          rebinding(
              () ->
                  new HttpServer(
                      wanted.model(),
                      wanted.host(),
                      wanted.port(),
                      Duration.ofMillis(wanted.keepAliveMillis()),
                      this::route));
    } catch (IOException e) {
      life.close();
      throw e;
    }
    // Ports picked by the first life are kept by the next ones.
    SimOptions bound = wanted.withPort(listener.port());
    List<EventOptions> boundEvents = new ArrayList<>();
    for (int rank = 0; rank < wantedEvents.size(); rank++) {
      KvEventPublisher publisher = life.ranks().get(rank).publisher();
      EventOptions before = wantedEvents.get(rank);
      boundEvents.add(publisher == null ? before : before.resolved(publisher));
    }
    events = List.copyOf(boundEvents);
    options = bound;
    http = listener;
    running =
        new Running(
            bound,
            life,
            new GenerationApi(bound, tokenizer, words, loras),
            new ServerPages(bound, tokenizer, loras));
    listener.start();
  }

  /** {@link #crash}, then {@link #up}. */
  public void restart() {
    synchronized (lifecycle) {
      crash();
      up();
    }
  }

  /** A snapshot for tests and the control page. */
  public Status status() {
    Running now = running;
    if (now == null) {
      return new Status(false, false, 0, 0, 0, 0, 0, 1, faults.planned());
    }
    WorkerLife life = now.life();
    EngineLoop first = life.ranks().getFirst().loop();
    KvEventPublisher publisher = life.ranks().getFirst().publisher();
    int connections;
    synchronized (lifecycle) {
      connections = http == null ? 0 : http.openConnections();
    }
    return new Status(
        true,
        first.paused(),
        life.running(),
        life.waiting(),
        life.usage(),
        publisher == null ? 0 : publisher.nextSeq(),
        connections,
        first.slowdown(),
        faults.planned());
  }

  /**
   * What a worker is doing.
   *
   * @param nextEventSeq sequence number of the next event batch of rank 0
   * @param connections open HTTP connections
   * @param plannedFaults requests that will still be failed
   */
  public record Status(
      boolean up,
      boolean paused,
      int runningRequests,
      int waitingRequests,
      double cacheUsage,
      long nextEventSeq,
      int connections,
      double slowdown,
      int plannedFaults) {}

  @Override
  public void close() {
    crash();
    HttpServer listener = control;
    if (listener != null) {
      listener.close();
    }
  }

  private WorkerLife life() {
    Running now = running;
    if (now == null) {
      throw new IllegalStateException("the worker is down");
    }
    return now.life();
  }

  /** Opens something that binds; a port that the last life has just left may need a moment. */
  private static <T> T rebinding(Binding<T> binding) throws IOException {
    long giveUpAt = System.nanoTime() + REBIND_MILLIS * 1_000_000;
    while (true) {
      try {
        return binding.open();
      } catch (IOException | IllegalStateException e) {
        if (System.nanoTime() > giveUpAt) {
          throw e;
        }
        try {
          Thread.sleep(20);
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          throw e;
        }
      }
    }
  }

  private interface Binding<T> {
    T open() throws IOException;
  }

  private void route(HttpExchange exchange) throws IOException, InterruptedException {
    Running now = running;
    if (now == null) {
      exchange.breakOff();
      return;
    }
    String path = exchange.request().path();
    WorkerLife life = now.life();
    ServerPages pages = now.pages();
    switch (path) {
      case "/v1/chat/completions" -> generate(ApiKind.CHAT_COMPLETIONS, exchange, now);
      case "/v1/completions" -> generate(ApiKind.COMPLETIONS, exchange, now);
      case "/v1/messages" -> generate(ApiKind.MESSAGES, exchange, now);
      case "/v1/responses" -> generate(ApiKind.RESPONSES, exchange, now);
      case "/v1/messages/count_tokens" -> {
        if (isMethod("POST", exchange, now)) {
          pages.countTokens(exchange, life);
        }
      }
      case "/v1/models" -> {
        if (isMethod("GET", exchange, now)) {
          pages.models(exchange, life);
        }
      }
      case "/health", "/ping" -> pages.health(exchange, life);
      case "/load" -> pages.load(exchange, life);
      case "/version" -> {
        if (isMethod("GET", exchange, now)) {
          pages.version(exchange, life);
        }
      }
      case "/metrics" -> {
        if (isMethod("GET", exchange, now)) {
          pages.metrics(exchange, life);
        }
      }
      case "/kv_event_sources" -> {
        if (isMethod("GET", exchange, now)) {
          pages.eventSources(exchange, life);
        }
      }
      case "/tokenize" -> {
        if (isMethod("POST", exchange, now)) {
          pages.tokenize(exchange, life);
        }
      }
      case "/reset_prefix_cache" -> {
        if (isMethod("POST", exchange, now)) {
          pages.resetPrefixCache(exchange, life);
        }
      }
      default -> {
        if (!new ControlApi(this, true).handle(exchange)) {
          Replies.json(
              exchange, now.options(), life, 404, List.of(), JsonText.obj("detail", "Not Found"));
        }
      }
    }
  }

  private void generate(ApiKind api, HttpExchange exchange, Running now)
      throws IOException, InterruptedException {
    if (!isMethod("POST", exchange, now)) {
      return;
    }
    FaultPlan.Fault fault = faults.take();
    if (fault != null && fault.kind() == FaultPlan.Kind.STATUS) {
      ApiError error =
          new ApiError(
              fault.status(),
              "Failure asked for by /sim/fail.",
              "InternalServerError",
              null,
              false);
      Replies.error(exchange, now.options(), now.life(), api, error);
      return;
    }
    now.generation().handle(api, exchange, now.life(), fault);
  }

  private static boolean isMethod(String method, HttpExchange exchange, Running now)
      throws IOException {
    if (exchange.request().method().equals(method)) {
      return true;
    }
    Replies.json(
        exchange,
        now.options(),
        now.life(),
        405,
        List.of(new HttpExchange.Header("allow", method)),
        JsonText.obj("detail", "Method Not Allowed"));
    return false;
  }
}
