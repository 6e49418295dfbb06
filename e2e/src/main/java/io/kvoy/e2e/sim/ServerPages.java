// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.tokenizer.Tokenization;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;

/** The endpoints of a vLLM server that generate nothing. Called on request threads. */
final class ServerPages {
  private final SimOptions options;
  private final SimTokenizer tokenizer;
  private final Map<String, EngineRequest.Lora> loras;

  ServerPages(SimOptions options, SimTokenizer tokenizer, Map<String, EngineRequest.Lora> loras) {
    this.options = options;
    this.tokenizer = tokenizer;
    this.loras = loras;
  }

  void health(HttpExchange exchange, WorkerLife life) throws IOException {
    Replies.body(exchange, options, life, 200, List.of(), null, new byte[0]);
  }

  void version(HttpExchange exchange, WorkerLife life) throws IOException {
    ok(exchange, life, JsonText.obj("version", Replies.VERSION));
  }

  void load(HttpExchange exchange, WorkerLife life) throws IOException {
    // Counts only with --enable-server-load-tracking, which is off by default.
    ok(exchange, life, JsonText.obj("server_load", 0));
  }

  void models(HttpExchange exchange, WorkerLife life) throws IOException {
    List<Json> models = new ArrayList<>();
    models.add(model(life, options.model(), options.model(), null, options.engine().maxModelLen()));
    for (EngineRequest.Lora lora : loras.values()) {
      models.add(model(life, lora.name(), lora.path(), options.model(), null));
    }
    ok(exchange, life, JsonText.obj("object", "list", "data", models));
  }

  private static Json.Obj model(
      WorkerLife life,
      String id,
      String root,
      @org.jspecify.annotations.Nullable String parent,
      @org.jspecify.annotations.Nullable Integer maxModelLen) {
    return JsonText.obj(
        "id",
        id,
        "object",
        "model",
        "created",
        life.startedUnixSeconds(),
        "owned_by",
        "vllm",
        "root",
        root,
        "parent",
        parent,
        "max_model_len",
        maxModelLen,
        "permission",
        List.of(
            JsonText.obj(
                "id",
                "modelperm-" + life.nextId(),
                "object",
                "model_permission",
                "created",
                life.startedUnixSeconds(),
                "allow_create_engine",
                false,
                "allow_sampling",
                true,
                "allow_logprobs",
                true,
                "allow_search_indices",
                false,
                "allow_view",
                true,
                "allow_fine_tuning",
                false,
                "organization",
                "*",
                "group",
                null,
                "is_blocking",
                false)));
  }

  void metrics(HttpExchange exchange, WorkerLife life) throws IOException {
    exchange.respond(
        200,
        List.of(),
        "text/plain; version=1.0.0; charset=utf-8",
        Replies.commonHeaders(exchange, options, life),
        PrometheusPage.merged(life.ranks().stream().map(rank -> rank.metrics().page()).toList())
            .getBytes(StandardCharsets.UTF_8));
  }

  void eventSources(HttpExchange exchange, WorkerLife life) throws IOException {
    SequencedMap<String, Json> sources = new LinkedHashMap<>();
    for (WorkerLife.Rank rank : life.ranks()) {
      KvEventPublisher publisher = rank.publisher();
      if (publisher != null) {
        sources.put(Integer.toString(sources.size()), source(publisher));
      }
    }
    ok(exchange, life, new Json.Obj(sources));
  }

  private Json source(KvEventPublisher publisher) {
    return JsonText.obj(
        "enable_kv_cache_events",
        true,
        "publisher",
        "zmq",
        "endpoint",
        publisher.endpoint(),
        "replay_endpoint",
        publisher.replayEndpoint().isEmpty() ? null : publisher.replayEndpoint(),
        "buffer_steps",
        options.events().bufferSteps(),
        "hwm",
        100_000,
        "max_queue_size",
        100_000,
        "topic",
        options.events().topic());
  }

  void resetPrefixCache(HttpExchange exchange, WorkerLife life) throws IOException {
    boolean all = true;
    for (WorkerLife.Rank rank : life.ranks()) {
      all &= rank.loop().resetPrefixCache();
    }
    ok(exchange, life, JsonText.obj("success", all));
  }

  void tokenize(HttpExchange exchange, WorkerLife life) throws IOException {
    BodyFields fields;
    switch (BodyFields.read(exchange.request())) {
      case BodyFields.Outcome.Refused(ApiError error) -> {
        Replies.error(exchange, options, life, ApiKind.OTHER, error);
        return;
      }
      case BodyFields.Outcome.Read(BodyFields read) -> fields = read;
    }
    ApiKind api = fields.get("messages") == null ? ApiKind.COMPLETIONS : ApiKind.CHAT_COMPLETIONS;
    switch (tokenizer.prompts(api, exchange.request().body())) {
      case Tokenization.Exact exact -> {
        List<int[]> prompts = exact.prompts();
        int[] ids = prompts.isEmpty() ? new int[0] : prompts.getFirst();
        ok(
            exchange,
            life,
            JsonText.obj(
                "count",
                ids.length,
                "max_model_len",
                options.engine().maxModelLen(),
                "tokens",
                ids,
                "token_strs",
                null));
      }
      case Tokenization.Estimated(int _, String reason, int[] _) -> cannot(exchange, life, reason);
      case Tokenization.Unavailable(String reason) -> cannot(exchange, life, reason);
    }
  }

  void countTokens(HttpExchange exchange, WorkerLife life) throws IOException {
    switch (BodyFields.read(exchange.request())) {
      case BodyFields.Outcome.Refused(ApiError error) ->
          Replies.error(exchange, options, life, ApiKind.COUNT_TOKENS, error);
      case BodyFields.Outcome.Read _ -> {
        switch (tokenizer.prompts(ApiKind.MESSAGES, exchange.request().body())) {
          case Tokenization.Exact exact ->
              ok(
                  exchange,
                  life,
                  JsonText.obj(
                      "input_tokens",
                      exact.totalTokens(),
                      "context_management",
                      JsonText.obj("original_input_tokens", exact.totalTokens())));
          case Tokenization.Estimated(int _, String reason, int[] _) ->
              cannot(exchange, life, reason);
          case Tokenization.Unavailable(String reason) -> cannot(exchange, life, reason);
        }
      }
    }
  }

  private void cannot(HttpExchange exchange, WorkerLife life, String reason) throws IOException {
    Replies.error(
        exchange,
        options,
        life,
        ApiKind.OTHER,
        ApiError.badRequest("The simulated worker cannot tokenize this: " + reason, null));
  }

  private void ok(HttpExchange exchange, WorkerLife life, Json body) throws IOException {
    Replies.json(exchange, options, life, 200, List.of(), body);
  }
}
