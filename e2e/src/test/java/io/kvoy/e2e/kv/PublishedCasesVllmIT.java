// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.demo.Stage;
import io.kvoy.e2e.demo.StageWorker;
import io.kvoy.e2e.demo.VllmStageWorker;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Scratch;
import io.kvoy.e2e.env.VllmOptions;
import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.ChatMessage;
import io.kvoy.e2e.load.Conversation;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.LoadRun.Turn;
import io.kvoy.e2e.load.Workloads;
import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.OperatingSystemMXBean;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/**
 * Published failures for which only a real vLLM is proof, and how well times to the first token are
 * predicted of one. Its start takes minutes, so all tests share two workers.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class PublishedCasesVllmIT {
  private static final String MODEL = "tiny-qwen3";

  private static final int BLOCK = 32;

  /** Of each worker's cache; both together hold more than IDX-03 asks for. */
  private static final int BLOCKS = 5_400;

  private static final int MAX_MODEL_TOKENS = 4_096;

  private static final JsonReader JSON = new JsonReader(JsonLimits.DEFAULTS);

  private static final HttpClient HTTP =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  private static final List<StageWorker> WORKERS = new ArrayList<>();

  private static LossyEvents lossy;
  private static Stage stage;
  private static ChatClient client;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    LocalTools tools = LocalTools.find();
    List<VllmStageWorker> started =
        VllmStageWorker.start(
            tools,
            List.of(options(tools, "vllm-a"), options(tools, "vllm-b")),
            System.out::println);
    lossy = new LossyEvents(started.get(0));
    WORKERS.clear();
    WORKERS.addAll(List.of(lossy, started.get(1)));
    stage =
        Stage.start(
            tools,
            Files.createTempDirectory("kvoy-cases-"),
            MODEL,
            tools.tokenizer("qwen3"),
            WORKERS,
            0);
    client = new ChatClient(stage.url(), MODEL);
  }

  private static VllmOptions options(LocalTools tools, String name) {
    return VllmOptions.tinyQwen3(tools, name)
        .withCache(BLOCK, BLOCKS, MAX_MODEL_TOKENS)
        .withMore(
            // The last one counts: room for all streams of a test at once.
            List.of("--max-num-seqs", "32"), Map.of("VLLM_ENABLE_RESPONSES_API_STORE", "1"));
  }

  @AfterAll
  static void stop() throws IOException {
    if (client != null) {
      client.close();
    }
    if (stage != null) {
      stage.close();
      Scratch.delete(stage.folder());
    }
  }

  // ---- how well times are predicted ----

  private static final int WARM_UP = 200;

  /** What Kvoy says of one routed request: both times in milliseconds. */
  private record Predicted(String worker, double predicted, double actual, double prefill) {
    double error() {
      return Math.abs(predicted - actual) / actual;
    }
  }

  @Test
  @Order(1)
  void predictionErrorIsPublishedAndCounted() throws Exception {
    Workloads texts = new Workloads(71);
    List<Conversation> load = new ArrayList<>(texts.sharedPrefix(8, 20, 600, 60, 8));
    load.addAll(texts.multiTurn(24, 5, 250, 90, 8));
    load.addAll(texts.unique(220, 50, 1_500, 8));
    double loadBefore = ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    long start = System.nanoTime();
    List<Turn> turns = LoadRun.run(client, texts.shuffled(load), 4, _ -> {});
    double seconds = (System.nanoTime() - start) / 1e9;
    double loadAfter = ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();

    assertThat(turns).hasSize(500).extracting(Turn::answer).allMatch(ChatAnswer::ok);
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> stage.kvoy().metric("kvoy_worker_in_flight_requests", "") == 0);
    List<Predicted> all = predictions();
    assertThat(all).hasSize(turns.size());
    List<Predicted> counted = all.subList(WARM_UP, all.size());
    double[] errors = counted.stream().mapToDouble(Predicted::error).sorted().toArray();
    assertThat(Arrays.stream(errors).allMatch(Double::isFinite)).isTrue();
    double[] actual = counted.stream().mapToDouble(Predicted::actual).sorted().toArray();
    double typical = quantile(actual, 0.5);
    double[] bare =
        counted.stream()
            .mapToDouble(one -> Math.abs(typical - one.actual()) / one.actual())
            .sorted()
            .toArray();
    double[] prefill =
        counted.stream().mapToDouble(one -> one.prefill() / one.predicted()).sorted().toArray();
    System.out.printf(
        "%d requests in %.0f s, load average %.1f before and %.1f after; after the first %d:"
            + " prediction error median %.0f %%, p90 %.0f %%; %.0f %% predicted too short%n",
        turns.size(),
        seconds,
        loadBefore,
        loadAfter,
        WARM_UP,
        100 * quantile(errors, 0.5),
        100 * quantile(errors, 0.9),
        100.0
            * counted.stream().filter(one -> one.predicted() < one.actual()).count()
            / counted.size());
    System.out.printf(
        "actual TTFT p10 %.0f, median %.0f, p90 %.0f ms; prefill is %.0f %% of the predicted time in"
            + " the median, %.0f %% at p90%n",
        quantile(actual, 0.1),
        typical,
        quantile(actual, 0.9),
        100 * quantile(prefill, 0.5),
        100 * quantile(prefill, 0.9));
    double[] before = asTheOneBefore(counted);
    System.out.printf(
        "wrong by always saying that median: median %.0f %%, p90 %.0f %%; by saying what the"
            + " worker's last request took: median %.0f %%, p90 %.0f %%%n",
        100 * quantile(bare, 0.5),
        100 * quantile(bare, 0.9),
        100 * quantile(before, 0.5),
        100 * quantile(before, 0.9));
    for (StageWorker worker : WORKERS) {
      double median =
          stage.kvoy().metric("kvoy_worker_ttft_error_median_ratio", '"' + worker.name() + '"');
      double p90 =
          stage.kvoy().metric("kvoy_worker_ttft_error_p90_ratio", '"' + worker.name() + '"');
      System.out.printf(
          "%s, its latest 200: median %.0f %%, p90 %.0f %%%n",
          worker.name(), 100 * median, 100 * p90);
      assertThat(median).isPositive().isLessThanOrEqualTo(p90);
      assertThat(p90).isFinite();
    }
    for (String cause : List.of("cache", "queue", "rate")) {
      System.out.printf(
          "most likely wrong about %s: %.0f requests, %.1f s in all%n",
          cause,
          stage.kvoy().metric("kvoy_ttft_error_by_cause_seconds_count", '"' + cause + '"'),
          stage.kvoy().metric("kvoy_ttft_error_by_cause_seconds_sum", '"' + cause + '"'));
    }
    assertThat(stage.kvoy().metric("kvoy_ttft_error_seconds_count", "")).isEqualTo(turns.size());
    assertThat(stage.kvoy().metric("kvoy_ttft_predicted_seconds_count", ""))
        .isEqualTo(turns.size());
  }

  /** How much times differ from one request to the next of the same worker, sorted. */
  private static double[] asTheOneBefore(List<Predicted> requests) {
    Map<String, Double> last = new LinkedHashMap<>();
    return requests.stream()
        .flatMapToDouble(
            one -> {
              Double before = last.put(one.worker(), one.actual());
              return before == null
                  ? DoubleStream.empty()
                  : DoubleStream.of(Math.abs(before - one.actual()) / one.actual());
            })
        .sorted()
        .toArray();
  }

  private static double quantile(double[] sorted, double q) {
    return sorted[(int) Math.round(q * (sorted.length - 1))];
  }

  /** Of all streams that Kvoy has a record of, oldest first. */
  private static List<Predicted> predictions() throws Exception {
    List<Predicted> all = new ArrayList<>();
    Json page = read(stage.kvoy().admin("/debug/decisions?limit=1000").body());
    for (Json each : page instanceof Json.Arr(List<Json> items) ? items : List.<Json>of()) {
      double actual = number(each, "outcome", "ttft_ms");
      if (Double.isNaN(actual)) {
        continue;
      }
      String target = text(each, "target");
      for (Json candidate :
          at(each, "candidates") instanceof Json.Arr(List<Json> c) ? c : List.<Json>of()) {
        if (text(candidate, "worker").equals(target)) {
          all.add(
              new Predicted(
                  target, number(candidate, "ttft_ms"), actual, number(candidate, "prefill_ms")));
        }
      }
    }
    return all.reversed();
  }

  // ---- what the router reads is what the worker uses ----

  /** Some text that is worth more than a few tokens. */
  private static final String LONG = "river stone garden window ".repeat(12).strip();

  private static final Pattern PROMPT_TOKENS =
      Pattern.compile(
          "\"(?:prompt_tokens|input_tokens|cache_(?:read|creation)_input_tokens)\":([0-9]+)");

  @Test
  @Order(2)
  void PARSE_04_ofRepeatedKeysKvoyAndVllmTakeTheSameOne() throws Exception {
    Map<String, String> bodies = new LinkedHashMap<>();
    bodies.put(
        "/v1/chat/completions",
        """
        {"model":"FIRST","stream":false,"max_tokens":900,
         "messages":[{"role":"user","content":"hi","content":"LONG"}],
         "model":"LAST","stream":true,"max_tokens":3,"stream_options":{"include_usage":true}}""");
    bodies.put(
        "/v1/completions",
        """
        {"model":"FIRST","stream":false,"prompt":"hi","max_tokens":900,"prompt":"LONG",
         "model":"LAST","stream":true,"max_tokens":3,"stream_options":{"include_usage":true}}""");
    bodies.put(
        "/v1/messages",
        """
        {"model":"FIRST","stream":true,"max_tokens":900,
         "messages":[{"role":"user","content":"hi","content":"LONG"}],
         "model":"LAST","stream":false,"max_tokens":3}""");
    bodies.put(
        "/v1/responses",
        """
        {"model":"FIRST","stream":true,"input":"hi","max_output_tokens":900,"input":"LONG",
         "model":"LAST","stream":false,"max_output_tokens":16}""");
    for (Map.Entry<String, String> request : bodies.entrySet()) {
      String path = request.getKey();
      String body = request.getValue().replace("LONG", LONG);
      String good = body.replace("FIRST", "nobodys-model").replace("LAST", MODEL);
      HttpResponse<String> direct = post(worker(0), path, good);
      HttpResponse<String> through = post(stage.url(), path, good);

      assertThat(direct.statusCode()).as(direct.body()).isEqualTo(200);
      assertThat(through.statusCode()).as(through.body()).isEqualTo(200);
      boolean streams = body.contains("\"stream\":true,\"max_tokens\":3");
      for (HttpResponse<String> answer : List.of(direct, through)) {
        assertThat(answer.headers().firstValue("content-type").orElseThrow())
            .as(path)
            .startsWith(streams ? "text/event-stream" : "application/json");
      }
      Json decision = decision(through);
      assertThat(text(decision, "model")).isEqualTo(MODEL);
      assertThat(text(decision, "mode")).as(path).isEqualTo("exact");
      assertThat(number(decision, "prompt_tokens"))
          .as(path)
          .isEqualTo((double) promptTokens(through))
          .isEqualTo((double) promptTokens(direct))
          .isGreaterThan(40);
      // Only of what it takes for a stream does Kvoy learn the time of a first token.
      assertThat(!Double.isNaN(number(decision, "outcome", "ttft_ms"))).as(path).isEqualTo(streams);

      String bad = body.replace("FIRST", MODEL).replace("LAST", "nobodys-model");
      assertThat(post(worker(0), path, bad).statusCode()).as(path).isEqualTo(404);
      HttpResponse<String> relayed = post(stage.url(), path, bad);
      assertThat(relayed.statusCode()).as(path).isEqualTo(404);
      assertThat(text(decision(relayed), "model")).as("a name that is not ours").isEqualTo("other");
    }
  }

  @Test
  @Order(3)
  void API_01_everyApiIsUnderstoodAsVllmUnderstandsItAndKeepsItsErrorShape() throws Exception {
    String more =
        ",\"temperature\":0,\"unknown_field\" : {\"a\":[1.50,\"\\u00e9\"],\"messages\":[]} }";
    String messages = "\"messages\":[{\"role\":\"user\",\"content\":\"Once upon a time\"}]";
    Map<String, String> bodies = new LinkedHashMap<>();
    // A model of random weights never ends by itself, so there is a limit even in the minimum.
    bodies.put("/v1/chat/completions", "{\"model\":\"M\"," + messages + ",\"max_tokens\":8");
    bodies.put("/v1/completions", "{\"model\":\"M\",\"prompt\":\"Once upon a time\"");
    bodies.put(
        "/v1/responses",
        "{\"model\":\"M\",\"input\":\"Once upon a time\",\"max_output_tokens\":16");
    bodies.put("/v1/messages", "{\"model\":\"M\"," + messages + ",\"max_tokens\":8");
    for (Map.Entry<String, String> request : bodies.entrySet()) {
      String path = request.getKey();
      for (String rest : List.of("}", more)) {
        String body = request.getValue().replace("\"M\"", '"' + MODEL + '"') + rest;
        HttpResponse<String> direct = post(worker(1), path, body);
        HttpResponse<String> through = post(stage.url(), path, body);

        assertThat(direct.statusCode()).as(path + direct.body()).isEqualTo(200);
        assertThat(through.statusCode()).as(path + through.body()).isEqualTo(200);
        Json decision = decision(through);
        assertThat(text(decision, "mode")).as(path).isEqualTo("exact");
        assertThat(text(decision, "api")).isEqualTo(path.substring(4).replace('/', '_'));
        assertThat(number(decision, "prompt_tokens"))
            .as(path)
            .isEqualTo((double) promptTokens(through))
            .isEqualTo((double) promptTokens(direct));
        if (rest.contains("temperature")) {
          assertThat(generated(through.body())).as(path).isEqualTo(generated(direct.body()));
        }
      }
      // Refused by Kvoy, in the words of the API: as vLLM where it refuses something itself.
      HttpResponse<String> ours = post(stage.url(), path, request.getValue());
      HttpResponse<String> theirs =
          post(worker(1), path, request.getValue().replace("\"M\"", "\"nobodys-model\"") + "}");
      assertThat(ours.statusCode()).as(path + ours.body()).isEqualTo(400);
      assertThat(ours.headers().firstValue("x-kvoy-decision-id")).as("no pick").isEmpty();
      assertThat(theirs.statusCode()).as(path + theirs.body()).isEqualTo(404);
      assertThat(shape(read(ours.body())))
          .as(path + ": %s and vLLM's %s", ours.body(), theirs.body())
          .isEqualTo(shape(read(theirs.body())));
    }
  }

  /** Names of the fields of an error, those within {@code error} too. */
  private static Set<String> shape(Json error) {
    Set<String> names = new TreeSet<>();
    if (error instanceof Json.Obj fields) {
      fields.fields().forEach((name, value) -> names.add(name + shape(value)));
    }
    return names;
  }

  private static String generated(String body) {
    return Pattern.compile("\"(?:text|content)\": ?\"((?:[^\"\\\\]|\\\\.)*)\"")
        .matcher(body)
        .results()
        .map(found -> found.group(1))
        .collect(Collectors.joining());
  }

  @Test
  @Order(4)
  void API_07_oddOutputLimitsAreTheWorkersToJudgeAndNotHeldAgainstIt() throws Exception {
    // The model is made to end at once: some of these limits are far away, or none.
    String body =
        "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],".formatted(MODEL)
            + "\"logit_bias\":{\"151645\":100}%s}";
    int refused = 0;
    for (String limit :
        List.of(
            "",
            "null",
            "-1",
            "0",
            "65535",
            "2147483647",
            "1000000000000000000",
            "1e18",
            "\"16\"",
            "16.5")) {
      String odd = body.formatted(limit.isEmpty() ? "" : ",\"max_tokens\":" + limit);
      HttpResponse<String> direct = post(worker(0), "/v1/chat/completions", odd);
      for (int i = 0; i < 8; i++) {
        HttpResponse<String> through = post(stage.url(), "/v1/chat/completions", odd);
        assertThat(through.statusCode()).as(limit).isEqualTo(direct.statusCode());
        assertThat(text(decision(through), "mode")).as(limit).isEqualTo("exact");
        if (direct.statusCode() != 200) {
          assertThat(direct.statusCode()).as(limit).isEqualTo(400);
          assertThat(through.body()).as(limit).isEqualTo(direct.body());
          refused++;
        }
      }
      System.out.printf("max_tokens %s: %d%n", limit, direct.statusCode());
    }
    assertThat(refused).as("limits that vLLM refuses").isGreaterThan(16);
    String fleet = stage.kvoy().admin("/debug/fleet").body();
    assertThat(fleet).doesNotContain("\"health\":\"ejected\"").doesNotContain("\"unready\"");
    assertThat(stage.kvoy().metric("kvoy_worker_health", "state=\"ready\"")).isEqualTo(2);
    Set<String> targets = new TreeSet<>();
    // One after the other they all go to the quicker one, but for a look at the other now and then.
    for (int i = 0; i < 80 && targets.size() < 2; i++) {
      ChatAnswer answer = client.chat(List.of(ChatMessage.user("And on " + i)), 1);
      assertThat(answer.ok()).as(answer.error()).isTrue();
      targets.add(answer.header("x-kvoy-target"));
    }
    assertThat(targets).as("both workers are still picked").hasSize(2);
    awaitNothingInFlight();
    assertThat(stage.kvoy().admin("/debug/fleet").body())
        .doesNotContainPattern("\"(queued_prefill_tokens|requests)\":-");
  }

  // ---- what is under way ----

  @Test
  @Order(5)
  void STREAM_01_longStreamsAreInFlightUntilTheirEnd() throws Exception {
    int streams = 20;
    HttpResponse<String> first =
        post(
            stage.url(),
            "/v1/responses",
            "{\"model\":\"%s\",\"input\":\"Remember\",\"max_output_tokens\":16}".formatted(MODEL));
    String home = first.headers().firstValue("x-kvoy-target").orElseThrow();
    String id = text(read(first.body()), "id");
    CountDownLatch begun = new CountDownLatch(streams);
    AtomicInteger ended = new AtomicInteger();
    // Continuing one answer, all belong to the worker that holds it.
    String body =
        "{\"model\":\"%s\",\"input\":\"Go on\",\"previous_response_id\":\"%s\",\"stream\":true,\"max_output_tokens\":400}"
            .formatted(MODEL, id);
    List<Thread> clients = new ArrayList<>();
    for (int i = 0; i < streams; i++) {
      clients.add(Thread.ofVirtual().start(() -> stream(body, begun, ended)));
    }
    assertThat(begun.await(60, TimeUnit.SECONDS)).as("first tokens").isTrue();
    int samples = 0;
    int elsewhere = 0;
    while (ended.get() == 0 && samples < 20) {
      double held = stage.kvoy().metric("kvoy_worker_in_flight_requests", '"' + home + '"');
      if (ended.get() == 0) {
        assertThat(held).as("all have their first token, none its end").isEqualTo(streams);
        samples++;
      }
      ChatAnswer answer = client.chat(List.of(ChatMessage.user("Something else " + samples)), 1);
      elsewhere += answer.header("x-kvoy-target").equals(home) ? 0 : 1;
    }
    assertThat(samples).as("looks at running streams").isGreaterThan(2);
    for (Thread client : clients) {
      client.join();
    }
    assertThat(ended).hasValue(streams);
    awaitNothingInFlight();
    System.out.printf(
        "%d streams held in %d looks; %d other requests meanwhile went to the idle worker%n",
        streams, samples, elsewhere);
  }

  private static void stream(String body, CountDownLatch begun, AtomicInteger ended) {
    try {
      HttpResponse<java.io.InputStream> answer =
          HTTP.send(
              request(stage.url(), "/v1/responses", body),
              HttpResponse.BodyHandlers.ofInputStream());
      boolean hasBegun = false;
      boolean isWhole = false;
      try (BufferedReader lines =
          new BufferedReader(new InputStreamReader(answer.body(), StandardCharsets.UTF_8))) {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
          if (!hasBegun && line.contains(".delta\"")) {
            hasBegun = true;
            begun.countDown();
          }
          if (line.contains("\"response.completed\"") || line.contains("\"response.incomplete\"")) {
            isWhole = true;
            // Before the last byte, so that whoever looks later does not take it for running.
            ended.incrementAndGet();
          }
        }
      }
      if (!isWhole) {
        throw new IllegalStateException("cut");
      }
    } catch (IOException | InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void awaitNothingInFlight() {
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> stage.kvoy().metric("kvoy_worker_in_flight_requests", "") == 0);
  }

  // ---- what is cached ----

  @Test
  @Order(6)
  void HASH_04_reusableAreWholeBlocksBeforeTheLastToken() throws Exception {
    for (int tokens : new int[] {4 * BLOCK, 4 * BLOCK + 1, 20, BLOCK, BLOCK + 1, 5 * BLOCK - 1}) {
      String body = completion(ids(tokens, tokens));
      // Both have it, wherever it goes.
      for (int worker = 0; worker < WORKERS.size(); worker++) {
        assertThat(cachedTokens(post(worker(worker), "/v1/completions", body)))
            .as("cold, %d tokens", tokens)
            .isZero();
      }
      // Events follow an answer within milliseconds, or later when the machine is busy.
      LockSupport.parkNanos(Duration.ofMillis(700).toNanos());
      HttpResponse<String> warm = post(stage.url(), "/v1/completions", body);

      int reusable = (tokens - 1) / BLOCK * BLOCK;
      assertThat(cachedTokens(warm)).as("vLLM, %d tokens", tokens).isEqualTo(reusable);
      assertThat(warm.headers().firstValue("x-kvoy-predicted-cached-tokens"))
          .as("Kvoy, %d tokens", tokens)
          .contains(Integer.toString(reusable));
      assertThat(number(decision(warm), "prompt_tokens")).isEqualTo(tokens);
    }
  }

  @Test
  @Order(7)
  void KVE_02_lostBatchesAreFetchedAgainFromTheWorker() throws Exception {
    String name = '"' + lossy.name() + '"';
    double gaps = stage.kvoy().metric("kvoy_kv_gaps_total", name);
    double entries = stage.kvoy().metric("kvoy_index_entries", "");
    List<String> lost = new ArrayList<>();
    lossy.lose(true);
    for (int i = 0; i < 3; i++) {
      int before = lossy.lost();
      lost.add(completion(ids(2_000, 100 + i)));
      assertThat(post(worker(0), "/v1/completions", lost.getLast()).statusCode()).isEqualTo(200);
      await().atMost(Duration.ofSeconds(10)).until(() -> lossy.lost() > before);
    }
    // Whatever else a worker has to say of them.
    LockSupport.parkNanos(Duration.ofMillis(700).toNanos());
    assertThat(stage.kvoy().metric("kvoy_index_entries", ""))
        .as("nothing of them reached Kvoy")
        .isEqualTo(entries);
    assertThat(stage.kvoy().metric("kvoy_kv_gaps_total", name)).isEqualTo(gaps);

    // The next one that comes through tells of the gap.
    int passed = lossy.passed();
    lossy.lose(false);
    post(worker(0), "/v1/completions", completion(ids(300, 200)));
    await().atMost(Duration.ofSeconds(10)).until(() -> lossy.passed() > passed);
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> stage.kvoy().metric("kvoy_kv_gaps_total", name) == gaps + 1);
    await()
        .atMost(Duration.ofSeconds(40)) // a replay that a busy worker is late with is asked again
        .untilAsserted(
            () -> {
              assertThat(stage.kvoy().metric("kvoy_index_entries", ""))
                  .as(replays())
                  .isGreaterThanOrEqualTo(entries + lost.size() * (2_000 / BLOCK));
              assertThat(view(lossy.name())).isEqualTo("live");
            });
    for (String body : lost) {
      HttpResponse<String> again = post(stage.url(), "/v1/completions", body);
      assertThat(again.headers().firstValue("x-kvoy-target")).contains(lossy.name());
      assertThat(cachedTokens(again)).isEqualTo((2_000 - 1) / BLOCK * BLOCK);
      assertThat(again.headers().firstValue("x-kvoy-predicted-cached-tokens"))
          .contains(Long.toString(cachedTokens(again)));
    }
  }

  private static String replays() throws Exception {
    return stage
        .kvoy()
        .admin("/metrics")
        .body()
        .lines()
        .filter(line -> line.startsWith("kvoy_kv_replays_total"))
        .collect(Collectors.joining("\n"));
  }

  @Test
  @Order(8)
  void IDX_03_restartedKvoyServesAtOnceAndHasTenThousandBlocksBackByReplay() throws Exception {
    fill();
    await()
        .atMost(Duration.ofSeconds(60))
        .until(() -> stage.kvoy().metric("kvoy_index_entries", "") >= 10_000);
    // Until the events have come to rest.
    AtomicReference<Double> last = new AtomicReference<>(0.0);
    await()
        .pollInterval(Duration.ofMillis(500))
        .atMost(Duration.ofSeconds(30))
        .until(
            () -> {
              double present = stage.kvoy().metric("kvoy_index_entries", "");
              return present == last.getAndSet(present);
            });
    double before = last.get();
    List<ChatMessage> prompt =
        List.of(ChatMessage.system(new Workloads(5).text(400)), ChatMessage.user("Hello"));
    client.chat(prompt, 2);
    AtomicBoolean isOver = new AtomicBoolean();
    AtomicInteger served = new AtomicInteger();
    AtomicInteger failed = new AtomicInteger();
    Thread load =
        Thread.ofVirtual()
            .start(() -> LoadRun.untilOver(client, Duration.ofMillis(20), isOver, served, failed));
    await().atMost(Duration.ofSeconds(10)).until(() -> served.get() > 5);

    stage.kvoy().kill();
    int servedBefore = served.get();
    try (KvoyProcess again =
        KvoyProcess.start(
            stage.configFile(), stage.adminUrl().getPort(), stage.folder().resolve("again.log"))) {
      long alive = System.nanoTime();
      // Those that the load has pushed out meanwhile are not to come back.
      await()
          .ignoreExceptions() // a page that a busy machine renders too late
          .pollInterval(Duration.ofMillis(50))
          .atMost(Duration.ofSeconds(60))
          .until(() -> again.metric("kvoy_index_entries", "") >= 0.97 * before);
      Duration filled = Duration.ofNanos(System.nanoTime() - alive);
      again.awaitReady(Duration.ofSeconds(90));
      int failedBefore = failed.get();
      await().atMost(Duration.ofSeconds(20)).until(() -> again.metric("kvoy_picks_total", "") > 20);
      System.out.printf(
          "%.0f entries before; back %d ms after the new process was alive; %d requests served"
              + " since the old one died, %d failed%n",
          before, filled.toMillis(), served.get() - servedBefore, failed.get());
      assertThat(filled).isLessThan(Duration.ofMillis((long) (10_000 * crowd())));
      await()
          .atMost(Duration.ofSeconds(20))
          .until(
              () -> {
                ChatAnswer answer = client.chat(prompt, 2);
                return answer.cachedTokens() > 0
                    && answer
                        .header("x-kvoy-predicted-cached-tokens")
                        .equals(Long.toString(answer.cachedTokens()));
              });
      isOver.set(true);
      load.join();
      // Requests that meet a killed process fail until the proxy's next health check.
      assertThat(failed.get()).as("requests failed since it is back").isEqualTo(failedBefore);
      assertThat(served.get()).isGreaterThan(servedBefore);
    } finally {
      isOver.set(true);
    }
  }

  /** How much longer everything takes as others use the machine, too; 1 when they do not. */
  private static double crowd() {
    OperatingSystemMXBean machine = ManagementFactory.getOperatingSystemMXBean();
    return Math.max(1, machine.getSystemLoadAverage() / (2 * machine.getAvailableProcessors()));
  }

  /** 5,250 blocks on each worker, both at once. */
  private static void fill() throws Exception {
    int tokens = 125 * BLOCK;
    List<Thread> filling = new ArrayList<>();
    AtomicInteger good = new AtomicInteger();
    for (int w = 0; w < WORKERS.size(); w++) {
      URI worker = worker(w);
      int first = 1_000 * (w + 1);
      filling.add(
          Thread.ofVirtual()
              .start(
                  () -> {
                    for (int i = 0; i < 42; i++) {
                      String body = completion(ids(tokens, first + i));
                      try {
                        good.addAndGet(
                            post(worker, "/v1/completions", body).statusCode() == 200 ? 1 : 0);
                      } catch (IOException | InterruptedException e) {
                        throw new IllegalStateException(e);
                      }
                    }
                  }));
    }
    for (Thread each : filling) {
      each.join();
    }
    assertThat(good).hasValue(2 * 42);
  }

  private static String view(String worker) throws Exception {
    Json fleet = read(stage.kvoy().admin("/debug/fleet").body());
    for (Json each :
        at(fleet, "workers") instanceof Json.Arr(List<Json> all) ? all : List.<Json>of()) {
      if (text(each, "name").equals(worker)) {
        return text(each, "kv_view");
      }
    }
    return "";
  }

  /** Token ids that no other seed gives. */
  private static int[] ids(int count, int seed) {
    return IntStream.range(0, count).map(i -> 1_000 + (i * 31 + seed * 7_919) % 90_000).toArray();
  }

  private static String completion(int[] ids) {
    return "{\"model\":\"%s\",\"prompt\":%s,\"max_tokens\":1}"
        .formatted(MODEL, Arrays.toString(ids));
  }

  // ---- HTTP ----

  private static URI worker(int index) {
    return URI.create("http://" + WORKERS.get(index).endpoint());
  }

  private static HttpRequest request(URI base, String path, String body) {
    return HttpRequest.newBuilder(base.resolve(path))
        .timeout(Duration.ofMinutes(2))
        .header("content-type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
  }

  private static HttpResponse<String> post(URI base, String path, String body)
      throws IOException, InterruptedException {
    return HTTP.send(request(base, path, body), HttpResponse.BodyHandlers.ofString());
  }

  /** The record of a request's decision, once its outcome is in it. */
  private static Json decision(HttpResponse<String> answer) throws Exception {
    String id = answer.headers().firstValue("x-kvoy-decision-id").orElseThrow();
    AtomicReference<String> record = new AtomicReference<>("");
    await()
        .atMost(Duration.ofSeconds(5))
        .until(
            () -> {
              record.set(stage.kvoy().admin("/debug/decisions/" + id).body());
              return record.get().contains("\"end\":");
            });
    return read(record.get());
  }

  private static long promptTokens(HttpResponse<String> answer) {
    // Of the messages API cached tokens are counted beside the others.
    long tokens =
        PROMPT_TOKENS
            .matcher(answer.body())
            .results()
            .mapToLong(found -> Long.parseLong(found.group(1)))
            .sum();
    assertThat(tokens).as(answer.body()).isPositive();
    return tokens;
  }

  private static long cachedTokens(HttpResponse<String> answer) {
    assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
    double cached = number(read(answer.body()), "usage", "prompt_tokens_details", "cached_tokens");
    return Double.isNaN(cached) ? 0 : (long) cached;
  }

  // ---- JSON ----

  private static Json read(String text) {
    return JSON.read(text.getBytes(StandardCharsets.UTF_8))
            instanceof JsonRead.Document(Json value, var _, var _)
        ? value
        : Json.Null.NULL;
  }

  private static Json at(Json value, String... path) {
    Json found = value;
    for (String name : path) {
      Json next = found instanceof Json.Obj fields ? fields.get(name) : null;
      found = next == null ? Json.Null.NULL : next;
    }
    return found;
  }

  private static double number(Json value, String... path) {
    return switch (at(value, path)) {
      case Json.Int(long whole) -> whole;
      case Json.Real(double real) -> real;
      default -> Double.NaN;
    };
  }

  private static String text(Json value, String... path) {
    return at(value, path) instanceof Json.Str(String text) ? text : "";
  }
}
