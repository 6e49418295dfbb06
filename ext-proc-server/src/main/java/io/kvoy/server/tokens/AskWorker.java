// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.tokens.WorkerAnswer.Why;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Asks one worker for the token ids of a request.
 *
 * <p>A worker with render endpoints is sent the client's own body and renders every API. One
 * without (vLLM 0.32 answers 403 unless started with {@code --enable-scale-out}, others do not know
 * the path) is remembered for a while and asked through {@code /tokenize}, which knows chats and
 * texts only.
 *
 * <p>Blocking: for virtual threads. Never throws for what a worker does; keeps nothing of a prompt.
 */
public final class AskWorker implements AutoCloseable {
  /** A million ids of six digits with their commas. */
  private static final long MAX_ANSWER_BYTES = 16L << 20;

  /** A worker that is started again may have other endpoints. */
  private static final long FORGET_NANOS = Duration.ofMinutes(5).toNanos();

  /** More texts in one request are not worth as many questions. */
  private static final int MAX_TEXTS = 16;

  /** {@code <|start|>system<|message|>} in o200k_harmony. */
  private static final int[] HARMONY_START = {200_006, 17_360, 200_008};

  /** Beyond it the memory of endpoints is dropped; larger than any fleet. */
  private static final int MAX_REMEMBERED = 16_384;

  private final HttpClient http =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .followRedirects(HttpClient.Redirect.NEVER)
          .connectTimeout(Duration.ofSeconds(1))
          .executor(Executors.newVirtualThreadPerTaskExecutor())
          .build();

  private final JsonReader json =
      new JsonReader(JsonLimits.DEFAULTS.withMaxDocumentBytes((int) MAX_ANSWER_BYTES));
  private final LongSupplier nanoClock;

  /** Workers without render endpoints, with the time at which they are asked again. */
  private final Map<Endpoint, Long> withoutRender = new ConcurrentHashMap<>();

  public AskWorker(LongSupplier nanoClock) {
    this.nanoClock = nanoClock;
  }

  /**
   * Asks and waits.
   *
   * @param body the client's body, decoded
   * @param timeout for the whole of it, at least a millisecond
   */
  public WorkerAnswer ask(
      Endpoint worker, InferenceRequest request, byte[] body, Duration timeout) {
    if (request.prompt() instanceof Prompt.Unreadable) {
      return new WorkerAnswer.None(Why.NOT_ASKABLE);
    }
    long deadline = nanoClock.getAsLong() + timeout.toNanos();
    try {
      if (mayRender(worker)) {
        WorkerAnswer rendered = render(worker, request, body, deadline);
        if (rendered != null) {
          return rendered;
        }
        if (withoutRender.size() > MAX_REMEMBERED) {
          withoutRender.clear();
        }
        withoutRender.put(worker, nanoClock.getAsLong() + FORGET_NANOS);
      }
      return tokenize(worker, request, deadline);
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
      return new WorkerAnswer.None(Why.TIMEOUT);
    }
  }

  private boolean mayRender(Endpoint worker) {
    Long until = withoutRender.get(worker);
    return until == null || nanoClock.getAsLong() - until >= 0;
  }

  /** Null when the worker has no such endpoint. */
  private @Nullable WorkerAnswer render(
      Endpoint worker, InferenceRequest request, byte[] body, long deadline)
      throws InterruptedException {
    String path =
        switch (request.api()) {
          case CHAT_COMPLETIONS -> "/v1/chat/completions/render";
          case COMPLETIONS -> "/v1/completions/render";
          case RESPONSES -> "/v1/responses/render";
          case MESSAGES, COUNT_TOKENS -> "/v1/messages/render";
          case OTHER -> "";
        };
    if (path.isEmpty()) {
      return new WorkerAnswer.None(Why.NOT_ASKABLE);
    }
    return switch (post(worker, path, body, deadline)) {
      case Reply.Failed(Why why) -> new WorkerAnswer.None(why);
      case Reply.Forbidden _, Reply.Absent _ -> null;
      case Reply.Document(Json.Arr(List<Json> items)) -> {
        List<int[]> prompts = new ArrayList<>(items.size());
        for (Json item : items) {
          switch (rendered(item)) {
            case WorkerAnswer.Ids(List<int[]> one) -> prompts.addAll(one);
            case WorkerAnswer.None none -> {
              yield none;
            }
          }
        }
        yield new WorkerAnswer.Ids(prompts);
      }
      case Reply.Document(Json item) -> rendered(item);
    };
  }

  private static WorkerAnswer rendered(Json item) {
    if (!(item instanceof Json.Obj prompt)) {
      return new WorkerAnswer.None(Why.UNREADABLE);
    }
    Json features = prompt.get("features");
    if (features != null && !(features instanceof Json.Null)) {
      return new WorkerAnswer.None(Why.MULTIMODAL);
    }
    int[] ids = ids(prompt.get("token_ids"));
    return ids == null ? new WorkerAnswer.None(Why.UNREADABLE) : new WorkerAnswer.Ids(List.of(ids));
  }

  private WorkerAnswer tokenize(Endpoint worker, InferenceRequest request, long deadline)
      throws InterruptedException {
    List<byte[]> bodies = WorkerQuestion.bodies(request);
    if (bodies.isEmpty()) {
      return new WorkerAnswer.None(
          request.api() == ApiKind.CHAT_COMPLETIONS || request.api() == ApiKind.COMPLETIONS
              ? Why.NOT_ASKABLE
              : Why.NEEDS_RENDER);
    }
    if (bodies.size() > MAX_TEXTS) {
      return new WorkerAnswer.None(Why.NOT_ASKABLE);
    }
    List<int[]> prompts = new ArrayList<>(bodies.size());
    for (byte[] body : bodies) {
      switch (post(worker, "/tokenize", body, deadline)) {
        case Reply.Failed(Why why) -> {
          return new WorkerAnswer.None(why);
        }
        case Reply.Forbidden _, Reply.Absent _ -> {
          return new WorkerAnswer.None(Why.REFUSED);
        }
        case Reply.Document(Json answer) -> {
          int[] ids = answer instanceof Json.Obj fields ? ids(fields.get("tokens")) : null;
          if (ids == null) {
            return new WorkerAnswer.None(Why.UNREADABLE);
          }
          if (request.prompt() instanceof Prompt.Chat && beginsLikeHarmony(ids)) {
            return new WorkerAnswer.None(Why.NEEDS_RENDER);
          }
          prompts.add(ids);
        }
      }
    }
    return new WorkerAnswer.Ids(prompts);
  }

  /**
   * Whether these are ids of gpt-oss. vLLM 0.32 answers {@code /tokenize} with its chat template
   * ({@code serve/tokenize/serving.py}), but computes chats with the Harmony renderer ({@code
   * online_renderer.py}), which gives other ids where there is a system or developer message.
   */
  private static boolean beginsLikeHarmony(int[] ids) {
    return ids.length > HARMONY_START.length
        && Arrays.equals(ids, 0, HARMONY_START.length, HARMONY_START, 0, HARMONY_START.length);
  }

  private static int @Nullable [] ids(@Nullable Json value) {
    if (!(value instanceof Json.Arr(List<Json> items))) {
      return null;
    }
    int[] ids = new int[items.size()];
    for (int i = 0; i < ids.length; i++) {
      if (!(items.get(i) instanceof Json.Int(long id)) || id < 0 || id > Integer.MAX_VALUE) {
        return null;
      }
      ids[i] = (int) id;
    }
    return ids;
  }

  // ---- HTTP ----

  private sealed interface Reply {
    record Document(Json value) implements Reply {}

    /** There is no such path. */
    record Absent() implements Reply {}

    /** Status 403. */
    record Forbidden() implements Reply {}

    record Failed(Why why) implements Reply {}
  }

  private Reply post(Endpoint worker, String path, byte[] body, long deadline)
      throws InterruptedException {
    long left = deadline - nanoClock.getAsLong();
    if (left <= 0) {
      return new Reply.Failed(Why.TIMEOUT);
    }
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://" + worker + path))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofByteArray(body))
            .build();
    CompletableFuture<HttpResponse<byte[]>> answer =
        http.sendAsync(request, _ -> BoundedBody.inMemory(MAX_ANSWER_BYTES));
    try {
      return reply(answer.get(left, TimeUnit.NANOSECONDS));
    } catch (TimeoutException _) {
      answer.cancel(true);
      return new Reply.Failed(Why.TIMEOUT);
    } catch (ExecutionException e) {
      return new Reply.Failed(
          e.getCause() instanceof BoundedBody.TooLargeException ? Why.UNREADABLE : Why.UNREACHABLE);
    } catch (InterruptedException e) {
      answer.cancel(true);
      throw e;
    }
  }

  private Reply reply(HttpResponse<byte[]> response) {
    int status = response.statusCode();
    if (status == 501) {
      return new Reply.Absent();
    }
    if (status >= 500) {
      return new Reply.Failed(Why.ERROR);
    }
    if (status == 403) {
      return new Reply.Forbidden();
    }
    Json value =
        json.read(response.body()) instanceof JsonRead.Document document ? document.value() : null;
    if ((status == 404 || status == 405) && isUnknownPath(value)) {
      return new Reply.Absent();
    }
    if (status != 200) {
      return new Reply.Failed(status >= 400 ? Why.REFUSED : Why.UNREADABLE);
    }
    return value == null ? new Reply.Failed(Why.UNREADABLE) : new Reply.Document(value);
  }

  /** FastAPI says {@code {"detail":"Not Found"}}; an unknown model is vLLM's own error object. */
  private static boolean isUnknownPath(@Nullable Json value) {
    return !(value instanceof Json.Obj error) || error.get("error") == null;
  }

  @Override
  public void close() {
    http.shutdownNow();
  }
}
