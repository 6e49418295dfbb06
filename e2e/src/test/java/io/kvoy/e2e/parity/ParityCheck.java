// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.parity;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.JsonWriter;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.Tokenization;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/**
 * Sends requests to the render endpoints of a real vLLM and compares its ids with ours. One thread.
 */
final class ParityCheck {

  private final URI vllm;
  private final PromptTokenizer tokenizer;

  /** Whether there is an engine, and with it {@code count_tokens}. */
  private final boolean counts;

  private final Map<String, Integer> estimatedByReason = new TreeMap<>();
  private final Map<String, Integer> exactByApi = new TreeMap<>();
  private final List<String> wrong = new ArrayList<>();
  private int exact;
  private int answered;
  private int refused;

  ParityCheck(URI vllm, PromptTokenizer tokenizer, boolean counts) {
    this.vllm = vllm;
    this.tokenizer = tokenizer;
    this.counts = counts;
  }

  /**
   * What came out.
   *
   * @param answered requests that vLLM did not refuse
   * @param exact those of them that we declared exact
   * @param wrong one line for each of these with other ids than vLLM's
   */
  record Outcome(
      int answered,
      int refused,
      int exact,
      Map<String, Integer> exactByApi,
      Map<String, Integer> estimatedByReason,
      List<String> wrong) {

    int exactPercent() {
      return 100 * exact / Math.max(1, answered);
    }
  }

  Outcome run(List<ParityRequests.Request> requests) throws IOException, InterruptedException {
    try (HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
      for (ParityRequests.Request request : requests) {
        check(request, client);
      }
    }
    return new Outcome(answered, refused, exact, exactByApi, estimatedByReason, wrong);
  }

  private void check(ParityRequests.Request request, HttpClient client)
      throws IOException, InterruptedException {
    byte[] body = JsonWriter.bytes(request.body());
    ApiKind rendered = request.api() == ApiKind.COUNT_TOKENS ? ApiKind.MESSAGES : request.api();
    HttpResponse<byte[]> answer = post(client, rendered.path() + "/render", body);
    if (answer.statusCode() != 200) {
      refused++;
      return;
    }
    answered++;
    List<int[]> theirs = ids(read(answer.body()));
    if (request.api() == ApiKind.COUNT_TOKENS && counts) {
      Json counted = read(post(client, request.api().path(), body).body());
      if (!(counted instanceof Json.Obj count
          && count.get("input_tokens") instanceof Json.Int(long tokens)
          && tokens == theirs.getFirst().length)) {
        wrong.add(request.name() + " vLLM counts other tokens than it renders: " + counted);
      }
    }
    switch (ours(request.api(), body)) {
      case Tokenization.Exact tokens -> {
        exact++;
        exactByApi.merge(request.api().name(), 1, Integer::sum);
        compare(request, tokens.prompts(), theirs);
      }
      case Tokenization.Estimated(int _, String reason, int[] _) ->
          estimatedByReason.merge(reason, 1, Integer::sum);
      case Tokenization.Unavailable(String reason) ->
          estimatedByReason.merge("unavailable " + reason, 1, Integer::sum);
    }
  }

  private Tokenization ours(ApiKind api, byte[] body) {
    return switch (Dialects.parse(api, body)) {
      case RequestParse.Parsed(InferenceRequest request) -> tokenizer.tokenize(request);
      case RequestParse.PassThrough(ApiKind _, String reason) ->
          new Tokenization.Unavailable(reason);
      case RequestParse.Malformed(ApiKind _, String _, String reason) ->
          new Tokenization.Unavailable("malformed " + reason);
    };
  }

  private void compare(ParityRequests.Request request, List<int[]> ours, List<int[]> theirs) {
    for (int i = 0; i < Math.max(ours.size(), theirs.size()); i++) {
      int[] our = i < ours.size() ? ours.get(i) : new int[0];
      int[] their = i < theirs.size() ? theirs.get(i) : new int[0];
      int at = Arrays.mismatch(our, their);
      if (at >= 0) {
        wrong.add(
            "%s %s: prompt %d differs at %d of %d (ours %d): %s, vLLM %s; %s"
                .formatted(
                    request.name(),
                    request.api(),
                    i,
                    at,
                    their.length,
                    our.length,
                    around(our, at),
                    around(their, at),
                    JsonWriter.text(request.body())));
        return;
      }
    }
  }

  private static String around(int[] ids, int at) {
    int from = Math.max(0, at - 4);
    return Arrays.toString(Arrays.copyOfRange(ids, from, Math.clamp(at + 8L, from, ids.length)));
  }

  private HttpResponse<byte[]> post(HttpClient client, String path, byte[] body)
      throws IOException, InterruptedException {
    return client.send(
        HttpRequest.newBuilder(vllm.resolve(path))
            .header("content-type", "application/json")
            .timeout(Duration.ofMinutes(2))
            .POST(BodyPublishers.ofByteArray(body))
            .build(),
        BodyHandlers.ofByteArray());
  }

  private static Json read(byte[] body) {
    return ((JsonRead.Document) new JsonReader(JsonLimits.DEFAULTS).read(body)).value();
  }

  private static List<int[]> ids(Json rendered) {
    List<Json> prompts =
        rendered instanceof Json.Arr(List<Json> several) ? several : List.of(rendered);
    return prompts.stream()
        .map(prompt -> (Json.Arr) Objects.requireNonNull(((Json.Obj) prompt).get("token_ids")))
        .map(ids -> ids.items().stream().mapToInt(id -> (int) ((Json.Int) id).value()).toArray())
        .toList();
  }
}
