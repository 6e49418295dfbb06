// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import io.kvoy.e2e.env.EnvoyProcess;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Ports;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Workers, a Kvoy server and an Envoy with two doors to the same workers: one through Kvoy, one by
 * round robin.
 *
 * <p>Everything listens on loopback. {@link #close} stops in reverse order of the start, also when
 * the start failed half way; nothing is left running.
 */
public final class Stage implements AutoCloseable {
  private static final Duration READY_PATIENCE = Duration.ofSeconds(60);

  private final Path folder;
  private final String model;
  private final List<StageWorker> workers = new ArrayList<>();
  private @Nullable KvoyProcess kvoy;
  private @Nullable EnvoyProcess envoy;
  private final int adminPort = Ports.free();
  private final int handlerPort = Ports.free();
  private final Endpoint door;
  private final Endpoint plainDoor = new Endpoint("127.0.0.1", Ports.free());
  // HTTP/1.1: uvicorn loses the body of a request that offers an upgrade to HTTP/2.
  private final HttpClient http =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  private Stage(Path folder, String model, int port) {
    this.folder = folder;
    this.model = model;
    this.door = new Endpoint("127.0.0.1", port == 0 ? Ports.free() : port);
  }

  /**
   * Starts Kvoy and Envoy for workers that run already; takes them over, also when it fails.
   *
   * @param folder for configuration and logs; kept
   * @param model served model name
   * @param tokenizer tokenizer folder
   * @param port of the door through Kvoy, 0 for any
   */
  public static Stage start(
      LocalTools tools,
      Path folder,
      String model,
      Path tokenizer,
      List<? extends StageWorker> workers,
      int port)
      throws IOException, InterruptedException {
    Stage stage = new Stage(folder, model, port);
    stage.workers.addAll(workers);
    try {
      stage.startKvoyAndEnvoy(tools, tokenizer);
      return stage;
    } catch (IOException | InterruptedException | RuntimeException e) {
      stage.close();
      throw e;
    }
  }

  private void startKvoyAndEnvoy(LocalTools tools, Path tokenizer)
      throws IOException, InterruptedException {
    int extProcPort = Ports.free();
    Path config = configFile();
    Files.writeString(
        config,
        StageConfig.yaml(
            model, tokenizer, workers, extProcPort, Ports.free(), adminPort, handlerPort));
    kvoy = KvoyProcess.start(config, adminPort, folder.resolve("kvoy.log"));
    kvoy.awaitReady(READY_PATIENCE);
    EnvoyBootstrap bootstrap =
        EnvoyBootstrap.builder()
            .listen(door)
            .plainListen(plainDoor)
            .admin(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", extProcPort))
            .workers(workers.stream().map(StageWorker::endpoint).toList())
            .build();
    Files.writeString(folder.resolve("envoy.yaml"), bootstrap.toYaml());
    envoy = EnvoyProcess.start(tools, bootstrap);
    awaitFirstAnswer();
  }

  /** Envoy is up before it has probed Kvoy: the first answered request tells that both are. */
  private void awaitFirstAnswer() throws IOException, InterruptedException {
    long deadline = System.nanoTime() + READY_PATIENCE.toNanos();
    String last = "";
    while (System.nanoTime() < deadline) {
      try {
        HttpResponse<String> models =
            http.send(
                HttpRequest.newBuilder(url().resolve("/v1/models"))
                    .timeout(Duration.ofSeconds(5))
                    .build(),
                HttpResponse.BodyHandlers.ofString());
        if (models.statusCode() == 200
            && models.headers().firstValue("x-kvoy-decision-id").isPresent()) {
          return;
        }
        last = "status " + models.statusCode();
      } catch (IOException e) {
        last = e.getClass().getSimpleName();
      }
      Thread.sleep(100);
    }
    throw new IOException("no answer through Envoy and Kvoy in " + READY_PATIENCE + ": " + last);
  }

  /** Door through Kvoy. */
  public URI url() {
    return URI.create("http://" + door);
  }

  /** Door past Kvoy, by round robin. */
  public URI plainUrl() {
    return URI.create("http://" + plainDoor);
  }

  /** Kvoy's admin pages. */
  public URI adminUrl() {
    return URI.create("http://127.0.0.1:" + adminPort);
  }

  /** Kvoy's inference handler, for gateways that are not Envoy. */
  public Endpoint handler() {
    return new Endpoint("127.0.0.1", handlerPort);
  }

  /** The configuration file that Kvoy watches. */
  public Path configFile() {
    return folder.resolve("kvoy.yaml");
  }

  /** Names, in order. */
  public List<String> workerNames() {
    return workers.stream().map(StageWorker::name).toList();
  }

  /** The Kvoy process. */
  public KvoyProcess kvoy() {
    if (kvoy == null) {
      throw new IllegalStateException("the stage is not started");
    }
    return kvoy;
  }

  /**
   * Empties every worker's prefix cache, so that the next run starts cold. vLLM tells of it only
   * with its next engine step, so each worker is given a few tokens to chew on.
   */
  public void resetCaches() throws IOException, InterruptedException {
    for (StageWorker worker : workers) {
      post(worker, "/reset_prefix_cache", "");
      post(
          worker,
          "/v1/completions",
          "{\"model\":\"%s\",\"prompt\":\"a\",\"max_tokens\":1}".formatted(model));
    }
  }

  private void post(StageWorker worker, String path, String body)
      throws IOException, InterruptedException {
    HttpResponse<String> answer =
        http.send(
            HttpRequest.newBuilder(URI.create("http://" + worker.endpoint() + path))
                .timeout(Duration.ofSeconds(30))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build(),
            HttpResponse.BodyHandlers.ofString());
    if (answer.statusCode() != 200) {
      throw new IOException(
          "%s answered %s with status %d: %s"
              .formatted(worker.name(), path, answer.statusCode(), answer.body()));
    }
  }

  /** Folder with configuration and logs. */
  public Path folder() {
    return folder;
  }

  @Override
  public void close() throws IOException {
    IOException failure = null;
    if (envoy != null) {
      failure = closed(envoy::close, failure);
    }
    if (kvoy != null) {
      kvoy.close();
    }
    for (StageWorker worker : workers.reversed()) {
      failure = closed(worker::close, failure);
    }
    http.shutdownNow();
    if (failure != null) {
      throw failure;
    }
  }

  private interface Closing {
    void run() throws IOException;
  }

  private static @Nullable IOException closed(Closing closing, @Nullable IOException before) {
    try {
      closing.run();
      return before;
    } catch (IOException e) {
      if (before == null) {
        return e;
      }
      before.addSuppressed(e);
      return before;
    }
  }
}
