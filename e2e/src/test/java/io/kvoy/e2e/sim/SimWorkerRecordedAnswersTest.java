// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Every answer has the form of the one that a real vLLM 0.32 worker gave, down to the order of keys
 * and headers.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class SimWorkerRecordedAnswersTest {
  private static final String MODEL = "tiny-qwen3";
  private static final String LONG_TEXT = "word ".repeat(2100).strip();

  private final SimWorker worker = start();

  private static SimWorker start() {
    return SimWorker.start(
        SimOptions.builder(MODEL)
            .loras("lora-a=m/lora-a")
            .timeScale(200)
            .engine(EngineOptions.DEFAULTS.withCache(65, 32, 2048).withHashSeed("0"))
            .events(EventOptions.LOOPBACK.withTopic("kv@w0@tiny-qwen3"))
            .build());
  }

  @AfterAll
  void stop() {
    worker.close();
  }

  private static String chat(String more) {
    return "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"When does the first train go up?\"}]%s}"
        .formatted(MODEL, more);
  }

  private static String responses(String more) {
    return "{\"model\":\"%s\",\"instructions\":\"Be brief.\",\"input\":\"When does it go?\",\"temperature\":0%s}"
        .formatted(MODEL, more);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          chat                  | /v1/chat/completions | 6 | "stream":true
          chat-usage-cached     | /v1/chat/completions | 6 | "stream":true,"stream_options":{"include_usage":true}
          chat-continuous-usage | /v1/chat/completions | 4 | "stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}
          completion-usage      | /v1/completions      | 6 | "stream":true,"stream_options":{"include_usage":true}
          completion-token-ids  | /v1/completions      | 3 | "stream":true,"return_token_ids":true
          messages              | /v1/messages         | 6 | "stream":true
          responses             | /v1/responses        | 2 | "stream":true
          """)
  void streamsHaveTheRecordedEvents(String name, String path, int tokens, String fields)
      throws IOException {
    String more = ",\"max_tokens\":%d,%s".formatted(tokens, fields);
    String body =
        path.equals("/v1/responses")
            ? responses(",\"max_output_tokens\":%d,%s".formatted(tokens, fields))
            : path.equals("/v1/completions")
                ? "{\"model\":\"%s\",\"prompt\":\"once upon a time in a valley\"%s}"
                    .formatted(MODEL, more)
                : chat(more);
    RawHttp.Answer answer = RawHttp.post(worker.port(), path, body, "x-request-id: my-req-1");
    assertThat(shapes(answer.body()))
        .isEqualTo(shapes(Recording.resource("stream/" + name + ".sse")));
    assertHeaders(answer, Recording.resource("stream/" + name + ".headers"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          chat-full       | /v1/chat/completions
          chat-full-orca  | /v1/chat/completions
          completion-full | /v1/completions
          messages-full   | /v1/messages
          responses-full  | /v1/responses
          count-tokens    | /v1/messages/count_tokens
          tokenize-prompt | /tokenize
          """)
  void wholeAnswersHaveTheRecordedKeys(String name, String path) throws IOException {
    String body =
        switch (name) {
          case "completion-full" ->
              "{\"model\":\"%s\",\"prompt\":\"once upon a time\",\"max_tokens\":4}"
                  .formatted(MODEL);
          case "responses-full" -> responses(",\"max_output_tokens\":4");
          case "tokenize-prompt" ->
              "{\"model\":\"%s\",\"prompt\":\"once upon a time\"}".formatted(MODEL);
          default -> chat(",\"max_tokens\":4");
        };
    List<String> headers = new ArrayList<>();
    if (name.equals("chat-full-orca")) {
      headers.add("endpoint-load-metrics-format: json");
    } else if (name.equals("completion-full")) {
      headers.add("endpoint-load-metrics-format: text");
    }
    RawHttp.Answer answer = RawHttp.post(worker.port(), path, body, headers.toArray(String[]::new));
    assertThat(shape(Recording.json(answer.body())))
        .isEqualTo(shape(Recording.json(Recording.resource("stream/" + name + ".json"))));
    assertHeaders(answer, Recording.resource("stream/" + name + ".headers"));
  }

  @Test
  void loadHeaderReadsLikeTheRecordedOnes() throws IOException {
    RawHttp.Answer json =
        RawHttp.post(
            worker.port(),
            "/v1/chat/completions",
            chat(",\"max_tokens\":1"),
            "endpoint-load-metrics-format: json");
    RawHttp.Answer text =
        RawHttp.post(
            worker.port(),
            "/v1/chat/completions",
            chat(",\"max_tokens\":1"),
            "endpoint-load-metrics-format: TEXT");
    assertThat(json.header("endpoint-load-metrics"))
        .isEqualTo(
            "JSON {\"named_metrics\": {\"num_requests_waiting\": 0.0, \"kv_cache_usage_perc\": 0.0}}");
    assertThat(text.header("endpoint-load-metrics"))
        .isEqualTo(
            "TEXT named_metrics.num_requests_waiting=0.0, named_metrics.kv_cache_usage_perc=0.0");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          models.json           | /v1/models
          version.json          | /version
          kv_event_sources.json | /kv_event_sources
          """)
  void pagesHaveTheRecordedKeys(String resource, String path) throws IOException {
    RawHttp.Answer answer = RawHttp.get(worker.port(), path);
    assertThat(shape(Recording.json(answer.body())))
        .isEqualTo(shape(Recording.json(Recording.resource(resource))));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "bad-json",
        "bad-json-messages",
        "bad-temperature",
        "empty-messages",
        "empty-prompt",
        "missing-max-tokens-messages",
        "missing-messages",
        "not-found",
        "request-template-untrusted",
        "token-out-of-vocab",
        "too-long-chat",
        "too-long-completion",
        "too-long-max-tokens",
        "too-long-messages",
        "unknown-model-chat",
        "unknown-model-completion",
        "unknown-model-messages",
        "wrong-content-type",
        "wrong-method",
        "wrong-type"
      })
  void errorsAreTheRecordedOnesByteForByte(String name) throws IOException {
    String recorded = Recording.resource("errors/" + name + ".http");
    int headEnd =
        recorded.indexOf("\r\n\r\n") >= 0 ? recorded.indexOf("\r\n\r\n") : recorded.indexOf("\n\n");
    String body = recorded.substring(headEnd).strip();
    RawHttp.Answer answer = badRequest(name);
    assertThat(answer.body()).isEqualTo(body);
    assertHeaders(answer, recorded.substring(0, headEnd));
  }

  private RawHttp.Answer badRequest(String name) throws IOException {
    int port = worker.port();
    String chat = "/v1/chat/completions";
    return switch (name) {
      // Python finds no value at character 42 and 9.
      case "bad-json" ->
          RawHttp.post(port, chat, "{\"model\":\"tiny-qwen3\",\"messages\":[{\"role\":");
      case "bad-json-messages" -> RawHttp.post(port, "/v1/messages", "{\"model\":");
      case "bad-temperature" -> RawHttp.post(port, chat, chat(",\"temperature\":-1"));
      case "empty-messages" ->
          RawHttp.post(port, chat, "{\"model\":\"tiny-qwen3\",\"messages\":[]}");
      case "empty-prompt" ->
          RawHttp.post(port, "/v1/completions", "{\"model\":\"tiny-qwen3\",\"prompt\":\"\"}");
      case "missing-max-tokens-messages" -> RawHttp.post(port, "/v1/messages", chat(""));
      case "missing-messages" -> RawHttp.post(port, chat, "{\"model\":\"tiny-qwen3\"}");
      case "not-found" -> RawHttp.post(port, "/v1/nothing-here", "{}");
      case "request-template-untrusted" ->
          RawHttp.post(port, chat, chat(",\"chat_template\":\"{{ x }}\""));
      case "token-out-of-vocab" ->
          RawHttp.post(
              port, "/v1/completions", "{\"model\":\"tiny-qwen3\",\"prompt\":[1,999999999]}");
      case "too-long-chat" -> RawHttp.post(port, chat, longChat(""));
      case "too-long-completion" ->
          RawHttp.post(
              port,
              "/v1/completions",
              "{\"model\":\"tiny-qwen3\",\"prompt\":\"%s\"}".formatted(LONG_TEXT));
      case "too-long-max-tokens" -> RawHttp.post(port, chat, chat(",\"max_tokens\":5000"));
      case "too-long-messages" -> RawHttp.post(port, "/v1/messages", longChat(",\"max_tokens\":4"));
      case "unknown-model-chat" -> RawHttp.post(port, chat, chat("").replace("tiny-qwen3", "nope"));
      case "unknown-model-completion" ->
          RawHttp.post(port, "/v1/completions", "{\"model\":\"nope\",\"prompt\":\"hi\"}");
      case "unknown-model-messages" ->
          RawHttp.post(
              port, "/v1/messages", chat(",\"max_tokens\":4").replace("tiny-qwen3", "nope"));
      case "wrong-content-type" -> {
        try (RawHttp http = new RawHttp(port)) {
          http.send("POST", chat, List.of("content-type: text/plain"), chat(""));
          yield http.read();
        }
      }
      case "wrong-method" -> RawHttp.post(port, "/v1/models", "{}");
      case "wrong-type" ->
          RawHttp.post(port, chat, "{\"model\":\"tiny-qwen3\",\"messages\":\"hi\"}");
      default -> throw new AssertionError(name);
    };
  }

  private static String longChat(String more) {
    return "{\"model\":\"tiny-qwen3\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]%s}"
        .formatted(LONG_TEXT, more);
  }

  @Test
  void metricsPageHasTheRecordedFamiliesTypesLabelsAndBuckets() throws IOException {
    String ours = RawHttp.get(worker.port(), "/metrics").body();
    String recorded = Recording.resource("metrics/idle.txt");
    assertThat(types(ours)).isEqualTo(types(recorded));
    Set<String> missing = series(recorded);
    missing.removeAll(series(ours));
    assertThat(missing).isEmpty();
  }

  /** {@code # TYPE} lines of vLLM's own metrics, in order. */
  private static List<String> types(String page) {
    return page.lines()
        .filter(l -> l.startsWith("# TYPE vllm:") && !l.contains("tool_call"))
        .toList();
  }

  /** Samples of vLLM's own metrics without their values; information labels cut. */
  private static Set<String> series(String page) {
    return page.lines()
        .filter(l -> l.startsWith("vllm:") && !l.contains("tool_call") && !l.contains("_info{"))
        .map(l -> l.substring(0, l.lastIndexOf(' ')))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  /** Same status, same header names in the same order; values too where they say something. */
  private static void assertHeaders(RawHttp.Answer answer, String recordedHead) {
    List<String> recorded = recordedHead.strip().lines().map(String::strip).toList();
    assertThat(answer.statusLine()).isEqualTo(recorded.getFirst());
    List<String> names =
        recorded.stream().skip(1).map(l -> l.substring(0, l.indexOf(':'))).toList();
    assertThat(answer.headerNames()).isEqualTo(names);
    for (String line : recorded) {
      if (line.startsWith("content-type")
          || line.startsWith("transfer-encoding")
          || line.startsWith("allow")
          || line.startsWith("server")) {
        assertThat(answer.headers()).contains(line);
      }
    }
  }

  private static List<String> shapes(String sse) {
    List<String> shapes = new ArrayList<>();
    for (String line : sse.replace("\r", "").split("\n", -1)) {
      if (line.startsWith("data: {")) {
        shapes.add("data: " + shape(Recording.json(line.substring("data: ".length()))));
      } else {
        shapes.add(line);
      }
    }
    while (shapes.getLast().isEmpty()) {
      shapes.removeLast();
    }
    return shapes;
  }

  /** Fields whose value is the model's or the clock's, not the format's. */
  private static final Set<String> FREE =
      Set.of(
          "created_at",
          "instructions",
          "delta",
          "item_id",
          "output_tokens",
          "max_output_tokens",
          "id",
          "created",
          "content",
          "text",
          "system_fingerprint",
          "prompt_tokens",
          "total_tokens",
          "cached_tokens",
          "created_cache_tokens",
          "input_tokens",
          "cache_creation_input_tokens",
          "cache_read_input_tokens",
          "original_input_tokens",
          "count",
          "tokens",
          "root",
          "endpoint",
          "replay_endpoint",
          "token_ids",
          "prompt_token_ids");

  /** The JSON text with free values replaced by their type. */
  private static String shape(Json value) {
    return JsonText.write(masked("", value));
  }

  private static Json masked(String name, Json value) {
    return switch (value) {
      case Json.Obj object -> {
        var fields = new LinkedHashMap<String, Json>();
        object.fields().forEach((key, inner) -> fields.put(key, masked(key, inner)));
        yield new Json.Obj(fields);
      }
      case Json.Arr(List<Json> items) ->
          FREE.contains(name)
                  && items.stream().allMatch(Json.Int.class::isInstance)
                  && !items.isEmpty()
              ? new Json.Str("<ids>")
              : new Json.Arr(items.stream().map(i -> masked(name, i)).toList());
      case Json.Str _ -> FREE.contains(name) ? nonEmpty(name, value) : value;
      case Json.Int _ -> FREE.contains(name) ? new Json.Str("<number>") : value;
      case Json.Null _, Json.Bool _, Json.Real _, Json.BigInt _ -> value;
    };
  }

  /** An empty text is part of the format (the role chunk), other texts are not. */
  private static Json nonEmpty(String name, Json value) {
    return value instanceof Json.Str(String text) && text.isEmpty() && !name.equals("id")
        ? value
        : new Json.Str("<text>");
  }

  @Test
  void idsCarryTheClientsRequestId() throws IOException {
    RawHttp.Answer answer =
        RawHttp.post(
            worker.port(),
            "/v1/chat/completions",
            chat(",\"max_tokens\":1"),
            "X-Request-Id: my-req-2");
    assertThat(answer.body()).contains("\"id\":\"chatcmpl-my-req-2\"");
    assertThat(answer.header("x-request-id")).isEqualTo("my-req-2");
  }

  @Test
  void severalPromptsAndAnswersAreIndexedInOrder() throws IOException {
    RawHttp.Answer answer =
        RawHttp.post(
            worker.port(),
            "/v1/completions",
            "{\"model\":\"tiny-qwen3\",\"prompt\":[\"a\",\"b c\"],\"n\":2,\"max_tokens\":2,\"ignore_eos\":true}");
    Matcher index = Pattern.compile("\"index\":(\\d)").matcher(answer.body());
    List<Integer> indexes = new ArrayList<>();
    while (index.find()) {
      indexes.add(Integer.parseInt(index.group(1)));
    }
    assertThat(indexes).isEqualTo(IntStream.range(0, 4).boxed().toList());
    assertThat(answer.body())
        .contains("\"prompt_tokens\":3,\"total_tokens\":11,\"completion_tokens\":8");
    assertThat(Arrays.asList(answer.body().split("\"text\":"))).hasSize(5);
  }
}
