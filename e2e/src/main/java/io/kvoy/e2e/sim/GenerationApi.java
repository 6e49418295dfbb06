// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.jspecify.annotations.Nullable;

/**
 * What the generating APIs have in common: read and check, wait the API server's share of the time,
 * queue the sequences, pass tokens on as they come, and drop everything the moment the client
 * leaves. The spelling of an answer is a {@link AnswerWriter}'s. Called on request threads.
 */
final class GenerationApi {

  /** Spells an answer in one API's way. One object per request, used by one thread. */
  interface AnswerWriter {
    /** Text that leaves with the head of a stream, before any token. */
    default String start() {
      return "";
    }

    /** Text of a stream for one token; {@code finish} is set on a sequence's last token. */
    String token(Answer answer, String text, EngineOutput.@Nullable Finish finish);

    /** Text that ends a stream. */
    String end(List<Answer> answers);

    /** The whole answer when it is not streamed. */
    Json.Obj whole(List<Answer> answers);
  }

  /** One sequence's answer so far. */
  static final class Answer {
    private final int index;
    private final int[] prompt;
    private final StringBuilder text = new StringBuilder();
    private final List<Integer> ids = new ArrayList<>();
    private int cachedTokens;
    private int createdCacheTokens;
    private EngineOutput.@Nullable Finish finish;

    Answer(int index, int[] prompt) {
      this.index = index;
      this.prompt = prompt;
    }

    int index() {
      return index;
    }

    int[] prompt() {
      return prompt;
    }

    String text() {
      return text.toString();
    }

    int[] ids() {
      return ids.stream().mapToInt(Integer::intValue).toArray();
    }

    int lastId() {
      return ids.getLast();
    }

    int tokens() {
      return ids.size();
    }

    int cachedTokens() {
      return cachedTokens;
    }

    int createdCacheTokens() {
      return createdCacheTokens;
    }

    EngineOutput.@Nullable Finish finish() {
      return finish;
    }
  }

  private final SimOptions options;
  private final SimTokenizer tokenizer;
  private final WordModel words;
  private final Map<String, EngineRequest.Lora> loras;

  GenerationApi(
      SimOptions options,
      SimTokenizer tokenizer,
      WordModel words,
      Map<String, EngineRequest.Lora> loras) {
    this.options = options;
    this.tokenizer = tokenizer;
    this.words = words;
    this.loras = loras;
  }

  /**
   * Answers one request.
   *
   * @param fault what to do wrong, or null
   */
  void handle(ApiKind api, HttpExchange exchange, WorkerLife life, FaultPlan.@Nullable Fault fault)
      throws IOException, InterruptedException {
    HttpRequest http = exchange.request();
    switch (GenerationRequest.read(api, http, options, loras, tokenizer)) {
      case GenerationRequest.Outcome.Refused(ApiError error) ->
          Replies.error(exchange, options, life, api, error);
      case GenerationRequest.Outcome.Accepted(GenerationRequest request) ->
          generate(api, exchange, life, request, fault);
    }
  }

  private void generate(
      ApiKind api,
      HttpExchange exchange,
      WorkerLife life,
      GenerationRequest request,
      FaultPlan.@Nullable Fault fault)
      throws IOException, InterruptedException {
    life.clock().sleep(options.apiOverheadMillis());
    EngineLoop loop;
    String rankHeader = exchange.request().header("x-data-parallel-rank");
    switch (rank(rankHeader, life)) {
      case RankChoice.Chosen(WorkerLife.Rank rank) -> loop = rank.loop();
      case RankChoice.Refused(ApiError error) -> {
        Replies.error(exchange, options, life, api, error);
        return;
      }
    }
    String given = exchange.request().header("x-request-id");
    String id = given == null ? life.nextId() : given;
    AnswerWriter writer = writer(api, request, exchange.request(), id, life);
    BlockingQueue<EngineOutput> outputs = new LinkedBlockingQueue<>();
    Map<String, Answer> answers = new HashMap<>();
    List<Answer> inOrder = new ArrayList<>();
    List<String> engineIds = new ArrayList<>();
    exchange.onDisconnect(
        () -> {
          outputs.add(new EngineOutput.Gone(""));
          synchronized (engineIds) {
            engineIds.forEach(loop::abort);
          }
        });
    for (int[] prompt : request.prompts()) {
      for (int i = 0; i < request.answersPerPrompt(); i++) {
        Answer answer = new Answer(inOrder.size(), prompt);
        // A client may send one request id twice; the engine's own id is always new.
        String engineId = id + "-" + answer.index() + "-" + life.nextId();
        answers.put(engineId, answer);
        inOrder.add(answer);
        synchronized (engineIds) {
          if (exchange.gone()) {
            return;
          }
          engineIds.add(engineId);
          loop.submit(
              new EngineRequest(
                  engineId,
                  prompt,
                  request.lora(),
                  request.cacheSalt(),
                  request.sessionId(),
                  request.fullReport(),
                  request.maxTokens(),
                  request.minTokens(),
                  request.ignoreEos(),
                  i,
                  outputs::add));
        }
      }
    }
    if (request.stream()) {
      stream(exchange, life, writer, outputs, answers, inOrder, fault);
    } else {
      whole(exchange, life, writer, outputs, answers, inOrder);
    }
  }

  /** Where a request is computed. */
  private sealed interface RankChoice {
    record Chosen(WorkerLife.Rank rank) implements RankChoice {}

    record Refused(ApiError error) implements RankChoice {}
  }

  /**
   * {@code X-data-parallel-rank}: a number out of range is an error, anything else than a number is
   * ignored.
   */
  private static RankChoice rank(@Nullable String header, WorkerLife life) {
    if (header == null || !header.matches("-?[0-9]{1,9}")) {
      return new RankChoice.Chosen(life.leastLoaded());
    }
    int rank = Integer.parseInt(header);
    int size = life.ranks().size();
    return rank >= 0 && rank < size
        ? new RankChoice.Chosen(life.ranks().get(rank))
        : new RankChoice.Refused(
            ApiError.badRequest(
                "data_parallel_rank %d is out of range [0, %d).".formatted(rank, size), null));
  }

  private void stream(
      HttpExchange exchange,
      WorkerLife life,
      AnswerWriter writer,
      BlockingQueue<EngineOutput> outputs,
      Map<String, Answer> answers,
      List<Answer> inOrder,
      FaultPlan.@Nullable Fault fault)
      throws IOException, InterruptedException {
    exchange.startChunked(
        200, Replies.commonHeaders(exchange, options, life), "text/event-stream; charset=utf-8");
    exchange.chunk(writer.start());
    int open = inOrder.size();
    int tokens = 0;
    while (open > 0) {
      if (fault != null && tokens >= fault.afterTokens() && misbehave(exchange, fault)) {
        return;
      }
      switch (outputs.take()) {
        case EngineOutput.Gone _ -> {
          exchange.breakOff();
          return;
        }
        case EngineOutput.Token token -> {
          Answer answer = take(token, answers);
          tokens++;
          if (answer.finish != null) {
            open--;
          }
          exchange.chunk(writer.token(answer, words.text(token.tokenId()), answer.finish));
        }
      }
    }
    exchange.chunk(writer.end(inOrder));
    exchange.endChunked();
  }

  /** Does what the fault says with a stream; false when it is not a fault of streams. */
  private static boolean misbehave(HttpExchange exchange, FaultPlan.Fault fault)
      throws IOException, InterruptedException {
    switch (fault.kind()) {
      case STATUS -> {
        return false;
      }
      case ERROR_EVENT -> {
        // vLLM reports a failure after the head has left as an event of the stream.
        ApiError error =
            new ApiError(
                500, "EngineCore encountered an issue.", "InternalServerError", null, false);
        exchange.chunk("data: " + JsonText.write(error.openAi()) + "\n\ndata: [DONE]\n\n");
        exchange.endChunked();
      }
      case STALL -> {
        while (!exchange.gone()) {
          Thread.sleep(50);
        }
      }
      case CUT -> exchange.endChunked();
      case RESET -> exchange.breakOff();
    }
    exchange.disconnect();
    return true;
  }

  private void whole(
      HttpExchange exchange,
      WorkerLife life,
      AnswerWriter writer,
      BlockingQueue<EngineOutput> outputs,
      Map<String, Answer> answers,
      List<Answer> inOrder)
      throws IOException, InterruptedException {
    int open = inOrder.size();
    while (open > 0) {
      switch (outputs.take()) {
        case EngineOutput.Gone _ -> {
          exchange.breakOff();
          return;
        }
        case EngineOutput.Token token -> {
          Answer answer = take(token, answers);
          if (answer.finish != null) {
            open--;
          }
        }
      }
    }
    List<HttpExchange.Header> headers = new ArrayList<>();
    HttpExchange.Header load = Replies.loadHeader(exchange.request(), life);
    if (load != null) {
      headers.add(load);
    }
    Replies.json(exchange, options, life, 200, headers, writer.whole(inOrder));
  }

  /** Books a token. */
  private Answer take(EngineOutput.Token token, Map<String, Answer> answers) {
    Answer answer = answers.get(token.requestId());
    if (answer == null) {
      throw new IllegalStateException("token for an unknown sequence " + token.requestId());
    }
    answer.ids.add(token.tokenId());
    answer.text.append(words.text(token.tokenId()));
    answer.cachedTokens = token.cachedTokens();
    answer.createdCacheTokens = token.createdCacheTokens();
    answer.finish = token.finish();
    return answer;
  }

  private AnswerWriter writer(
      ApiKind api, GenerationRequest request, HttpRequest http, String id, WorkerLife life) {
    long created = System.currentTimeMillis() / 1000;
    return switch (api) {
      case CHAT_COMPLETIONS -> new ChatWriter(request, options, "chatcmpl-" + id, created);
      case COMPLETIONS -> new CompletionWriter(request, options, "cmpl-" + id, created);
      case MESSAGES -> new MessagesWriter(request, options, "chatcmpl-" + id);
      case RESPONSES ->
          new ResponsesWriter(
              request,
              BodyFields.lenient(http),
              options,
              "resp_" + id,
              "msg_" + life.nextId(),
              created);
      case COUNT_TOKENS, OTHER ->
          throw new IllegalArgumentException("not an API of this handler: " + api);
    };
  }

  static byte[] utf8(Json value) {
    return JsonText.write(value).getBytes(StandardCharsets.UTF_8);
  }
}
