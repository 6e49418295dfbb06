// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.JsonWriter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import org.jspecify.annotations.Nullable;

/**
 * Sends one streamed chat completion and times its first token. Blocking: call it on a virtual
 * thread when many run at once. Thread-safe.
 */
public final class ChatClient implements AutoCloseable {
  private static final JsonReader JSON = new JsonReader(JsonLimits.DEFAULTS);

  private final URI base;
  private final String model;
  private final HttpClient http;

  /**
   * @param base such as {@code http://127.0.0.1:10000}
   * @param model model name to ask for
   */
  public ChatClient(URI base, String model) {
    this.base = base;
    this.model = model;
    this.http =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(5))
            .executor(Executors.newVirtualThreadPerTaskExecutor())
            .build();
  }

  /** The request body that {@link #chat} sends. */
  public String body(List<ChatMessage> messages, int maxTokens) {
    Map<String, Json> root = new LinkedHashMap<>();
    root.put("model", new Json.Str(model));
    List<Json> items = new ArrayList<>();
    for (ChatMessage message : messages) {
      Map<String, Json> one = new LinkedHashMap<>();
      one.put("role", new Json.Str(message.role()));
      one.put("content", new Json.Str(message.content()));
      items.add(Json.Obj.of(one));
    }
    root.put("messages", new Json.Arr(items));
    root.put("max_tokens", new Json.Int(maxTokens));
    root.put("stream", new Json.Bool(true));
    root.put("stream_options", Json.Obj.of(Map.of("include_usage", new Json.Bool(true))));
    // Generation ends at max_tokens: runs stay comparable whatever a model of random weights says.
    root.put("ignore_eos", new Json.Bool(true));
    root.put("temperature", new Json.Int(0));
    return JsonWriter.text(Json.Obj.of(root));
  }

  /**
   * Sends a conversation and reads the answer to its end; never throws for what the network does.
   */
  public ChatAnswer chat(List<ChatMessage> messages, int maxTokens) {
    return chat(messages, maxTokens, Map.of());
  }

  /** As {@link #chat(List, int)}, with extra request headers. */
  public ChatAnswer chat(List<ChatMessage> messages, int maxTokens, Map<String, String> headers) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(base.resolve("/v1/chat/completions"))
            .timeout(Duration.ofMinutes(5))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body(messages, maxTokens)));
    headers.forEach(request::header);
    long start = System.nanoTime();
    try {
      HttpResponse<java.io.InputStream> response =
          http.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
      try (var lines =
          new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8))) {
        return read(response, lines, start);
      }
    } catch (IOException e) {
      return failed(0, start, e.getClass().getSimpleName() + ": " + e.getMessage(), Map.of());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return failed(0, start, "interrupted", Map.of());
    }
  }

  private static ChatAnswer read(HttpResponse<?> response, BufferedReader lines, long start)
      throws IOException {
    Map<String, String> headers = new LinkedHashMap<>();
    response.headers().map().forEach((name, values) -> headers.put(name, values.getFirst()));
    if (response.statusCode() != 200) {
      StringBuilder body = new StringBuilder();
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        body.append(line);
      }
      return failed(response.statusCode(), start, body.toString(), headers);
    }
    double ttft = Double.NaN;
    StringBuilder text = new StringBuilder();
    Json.@Nullable Obj usage = null;
    boolean done = false;
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      if (!line.startsWith("data:")) {
        continue;
      }
      String data = line.substring(5).strip();
      if (data.equals("[DONE]")) {
        done = true;
        continue;
      }
      if (!(JSON.read(data.getBytes(StandardCharsets.UTF_8)) instanceof JsonRead.Document document)
          || !(document.value() instanceof Json.Obj event)) {
        continue;
      }
      String piece = piece(event);
      if (!piece.isEmpty()) {
        if (Double.isNaN(ttft)) {
          ttft = millisSince(start);
        }
        text.append(piece);
      }
      if (event.get("usage") instanceof Json.Obj reported) {
        usage = reported;
      }
    }
    return new ChatAnswer(
        200,
        ttft,
        millisSince(start),
        text.toString(),
        number(usage, "prompt_tokens"),
        usage != null && usage.get("prompt_tokens_details") instanceof Json.Obj details
            ? number(details, "cached_tokens")
            : -1,
        number(usage, "completion_tokens"),
        headers,
        done ? "" : "stream ended without [DONE]");
  }

  private static String piece(Json.Obj event) {
    if (event.get("choices") instanceof Json.Arr(List<Json> choices)
        && !choices.isEmpty()
        && choices.getFirst() instanceof Json.Obj choice
        && choice.get("delta") instanceof Json.Obj delta
        && delta.get("content") instanceof Json.Str(String content)) {
      return content;
    }
    return "";
  }

  private static long number(Json.@Nullable Obj object, String field) {
    return object != null && object.get(field) instanceof Json.Int(long value) ? value : -1;
  }

  private static ChatAnswer failed(
      int status, long start, String error, Map<String, String> headers) {
    return new ChatAnswer(status, Double.NaN, millisSince(start), "", -1, -1, -1, headers, error);
  }

  private static double millisSince(long start) {
    return (System.nanoTime() - start) / 1e6;
  }

  @Override
  public void close() {
    http.shutdownNow();
  }
}
