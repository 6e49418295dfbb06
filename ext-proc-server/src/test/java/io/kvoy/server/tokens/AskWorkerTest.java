// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.tokens.FakeWorker.Answer;
import io.kvoy.server.tokens.WorkerAnswer.Why;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class AskWorkerTest {
  private static final String CHAT =
      "{\"model\":\"lora-a\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hé\"}]}";

  private FakeWorker worker;
  private long now;
  private final AskWorker ask = new AskWorker(() -> now);

  @BeforeEach
  void start() throws IOException {
    worker = new FakeWorker();
  }

  @AfterEach
  void stop() {
    ask.close();
    worker.close();
  }

  private WorkerAnswer ask(ApiKind api, String text) {
    byte[] body = text.getBytes(StandardCharsets.UTF_8);
    InferenceRequest request = ((RequestParse.Parsed) Dialects.parse(api, body)).request();
    return ask.ask(worker.endpoint(), request, body, Duration.ofSeconds(5));
  }

  private static void assertIds(WorkerAnswer answer, int[]... prompts) {
    assertThat(answer).isInstanceOf(WorkerAnswer.Ids.class);
    assertThat(((WorkerAnswer.Ids) answer).prompts().toArray(int[][]::new)).isDeepEqualTo(prompts);
  }

  @Test
  void aWorkerWithRenderEndpointsGetsTheClientsOwnBody() {
    worker.answers.put(
        "/v1/chat/completions/render", new Answer(200, "{\"token_ids\":[1,2],\"features\":null}"));

    assertIds(ask(ApiKind.CHAT_COMPLETIONS, CHAT), new int[] {1, 2});
    assertThat(worker.seen).containsExactly("/v1/chat/completions/render " + CHAT);
  }

  @Test
  void renderedCompletionsAreOnePromptEach() {
    worker.answers.put(
        "/v1/completions/render", new Answer(200, "[{\"token_ids\":[1]},{\"token_ids\":[2,3]}]"));

    assertIds(
        ask(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"]}"),
        new int[] {1},
        new int[] {2, 3});
  }

  @Test
  void aWorkerWithoutRenderIsAskedThroughTokenizeAndRemembered() {
    worker.tokenizes(7, 8);

    assertIds(ask(ApiKind.CHAT_COMPLETIONS, CHAT), new int[] {7, 8});
    assertIds(ask(ApiKind.CHAT_COMPLETIONS, CHAT), new int[] {7, 8});

    String question =
        "/tokenize {\"model\":\"lora-a\",\"messages\":[{\"role\":\"user\",\"content\":\"hé\"}]}";
    assertThat(worker.seen)
        .containsExactly("/v1/chat/completions/render " + CHAT, question, question);
    now += Duration.ofMinutes(5).toNanos();
    ask(ApiKind.CHAT_COMPLETIONS, CHAT);
    assertThat(worker.seen.get(3)).as("asked again").startsWith("/v1/chat/completions/render");
  }

  @Test
  void aWorkerWhoseRenderEndpointsAreSwitchedOffIsAskedThroughTokenize() {
    // What vLLM 0.32 says without --enable-scale-out.
    worker.answers.put(
        "/v1/chat/completions/render",
        new Answer(403, "{\"error\":{\"message\":\"off\",\"type\":\"PermissionDeniedError\"}}"));
    worker.tokenizes(7);

    assertIds(ask(ApiKind.CHAT_COMPLETIONS, CHAT), new int[] {7});
  }

  /** Its worker computes chats with another renderer than the one behind /tokenize. */
  @Test
  void chatsOfGptOssNeedARenderEndpoint() {
    worker.tokenizes(200_006, 17_360, 200_008, 3_575, 553);

    assertThat(ask(ApiKind.CHAT_COMPLETIONS, CHAT))
        .isEqualTo(new WorkerAnswer.None(Why.NEEDS_RENDER));
    assertIds(
        ask(
            ApiKind.COMPLETIONS,
            "{\"model\":\"m\",\"prompt\":\"<|start|>system<|message|>You are\"}"),
        new int[] {200_006, 17_360, 200_008, 3_575, 553});
  }

  @Test
  void whatReachesTheTemplateIsPutWhereTokenizeTakesIt() {
    worker.tokenizes(1);

    ask(
        ApiKind.CHAT_COMPLETIONS,
        """
        {"model":"m","messages":[{"role":"user","content":"x"}],"temperature":0.5,"max_tokens":5,
        "tools":[{"type":"function","function":{"name":"f"}}],"add_generation_prompt":false,
        "continue_final_message":true,"reasoning_effort":"none","documents":[{"text":"d"}],
        "chat_template_kwargs":{"k":1}}
        """);

    assertThat(worker.seen.getLast())
        .isEqualTo(
            "/tokenize {\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                + "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                + "\"add_generation_prompt\":false,\"continue_final_message\":true,"
                + "\"chat_template_kwargs\":{\"k\":1,\"documents\":[{\"text\":\"d\"}],"
                + "\"reasoning_effort\":\"none\",\"enable_thinking\":false}}");
  }

  @Test
  void everyTextIsAQuestionOfItsOwn() {
    worker.tokenizes(5);

    assertIds(
        ask(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"]}"),
        new int[] {5},
        new int[] {5});
    assertThat(worker.seen.getLast())
        .isEqualTo("/tokenize {\"model\":\"m\",\"prompt\":\"b\",\"add_special_tokens\":true}");
  }

  @Test
  void otherApisNeedARenderEndpoint() {
    worker.tokenizes(5);

    assertThat(
            ask(
                ApiKind.MESSAGES,
                "{\"model\":\"m\",\"max_tokens\":1,"
                    + "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"))
        .isEqualTo(new WorkerAnswer.None(Why.NEEDS_RENDER));
  }

  @Test
  void aPromptWithImagesIsNotOnlyItsTokens() {
    worker.answers.put(
        "/v1/chat/completions/render",
        new Answer(200, "{\"token_ids\":[1,2],\"features\":{\"mm_hashes\":{}}}"));

    assertThat(ask(ApiKind.CHAT_COMPLETIONS, CHAT))
        .isEqualTo(new WorkerAnswer.None(Why.MULTIMODAL));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          500 | {}                                        | ERROR
          400 | {"error":{"message":"x"}}                 | REFUSED
          404 | {"error":{"message":"no such model"}}     | REFUSED
          200 | not json                                  | UNREADABLE
          200 | {"tokens":"x"}                            | UNREADABLE
          200 | {"tokens":[1,-1]}                         | UNREADABLE
          200 | {"tokens":[4294967296]}                   | UNREADABLE
          302 | {}                                        | UNREADABLE
          """)
  void anAnswerWithoutIdsIsAWordAndNoException(int status, String body, Why why) {
    worker.answers.put("/tokenize", new Answer(status, body));

    assertThat(ask(ApiKind.CHAT_COMPLETIONS, CHAT)).isEqualTo(new WorkerAnswer.None(why));
  }

  @Test
  void aSlowWorkerIsLeftAtTheDeadline() {
    worker.gate = new CountDownLatch(1);
    byte[] body = CHAT.getBytes(StandardCharsets.UTF_8);
    InferenceRequest request =
        ((RequestParse.Parsed) Dialects.parse(ApiKind.CHAT_COMPLETIONS, body)).request();

    assertThat(ask.ask(worker.endpoint(), request, body, Duration.ofMillis(50)))
        .isEqualTo(new WorkerAnswer.None(Why.TIMEOUT));
  }

  @Test
  void aWorkerThatIsGoneIsUnreachable() {
    Endpoint gone = worker.endpoint();
    worker.close();
    byte[] body = CHAT.getBytes(StandardCharsets.UTF_8);
    InferenceRequest request =
        ((RequestParse.Parsed) Dialects.parse(ApiKind.CHAT_COMPLETIONS, body)).request();

    assertThat(ask.ask(gone, request, body, Duration.ofSeconds(5)))
        .isEqualTo(new WorkerAnswer.None(Why.UNREACHABLE));
  }

  @Test
  void aTemplateInTheRequestIsNotAskedAbout() {
    worker.tokenizes(1);
    String body = CHAT.replace("\"stream\":true", "\"chat_template\":\"{{ x }}\"");

    assertThat(List.of(ask(ApiKind.CHAT_COMPLETIONS, body)))
        .containsExactly(new WorkerAnswer.None(Why.NOT_ASKABLE));
  }
}
