// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.server.config.ModelPool.WorkerTokenizer;
import io.kvoy.tokenizer.Tokenization;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WorkerTokensTest {
  private static final String TEXT = "{\"model\":\"m\",\"prompt\":\"%s\"}";

  private FakeWorker a;
  private FakeWorker b;
  private long now;
  private final FleetRegistry registry = new FleetRegistry(HealthSettings.DEFAULTS, () -> now);
  private final AskWorker ask = new AskWorker(System::nanoTime);
  private final WorkerTokens tokens =
      new WorkerTokens(
          "pool", new WorkerTokenizer(Duration.ofSeconds(5), 1), registry::fleet, ask, () -> now);

  @BeforeEach
  void start() throws IOException {
    a = new FakeWorker();
    b = new FakeWorker();
    a.tokenizes(1, 2);
    b.tokenizes(1, 2);
  }

  @AfterEach
  void stop() {
    ask.close();
    a.close();
    b.close();
  }

  private void fleetOfBoth() {
    registry.apply(
        "pool",
        List.of(
            WorkerSpec.ready("pool", "a", a.endpoint()),
            WorkerSpec.ready("pool", "b", b.endpoint())));
  }

  private CompletableFuture<Tokenization> asked(String body) {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    InferenceRequest request =
        ((RequestParse.Parsed) Dialects.parse(ApiKind.COMPLETIONS, bytes)).request();
    CompletableFuture<Tokenization> answer = new CompletableFuture<>();
    tokens.tokenize(request, bytes, answer::complete);
    return answer;
  }

  private Tokenization tokens(String body) throws Exception {
    return asked(body).get(10, TimeUnit.SECONDS);
  }

  private static void assertExact(Tokenization tokens, int... ids) {
    assertThat(tokens).isInstanceOf(Tokenization.Exact.class);
    assertThat(((Tokenization.Exact) tokens).prompts()).hasSize(1);
    assertThat(((Tokenization.Exact) tokens).prompts().getFirst()).containsExactly(ids);
  }

  @Test
  void whatAWorkerSaysOfItsTokensIsExactAndWorkersTakeTurns() throws Exception {
    fleetOfBoth();

    assertExact(tokens(TEXT.formatted("x")), 1, 2);
    assertExact(tokens(TEXT.formatted("y")), 1, 2);

    assertThat(a.seen).isNotEmpty();
    assertThat(b.seen).isNotEmpty();
  }

  @Test
  void theSamePromptCostsNoSecondQuestionForAWhile() throws Exception {
    fleetOfBoth();
    tokens(TEXT.formatted("x"));
    int before = a.seen.size() + b.seen.size();

    assertExact(tokens("{\"model\":\"m\",\"prompt\":\"x\",\"max_tokens\":5}"), 1, 2);
    assertThat(a.seen.size() + b.seen.size()).isEqualTo(before);
    now += Duration.ofSeconds(61).toNanos();
    tokens(TEXT.formatted("x"));
    assertThat(a.seen.size() + b.seen.size()).isGreaterThan(before);
    assertThat(tokens.memoryBytes()).isPositive();
  }

  @Test
  void tokenIdsNeedNoQuestion() throws Exception {
    assertExact(tokens("{\"model\":\"m\",\"prompt\":[4,5]}"), 4, 5);
  }

  @Test
  void aPromptThatIsToBeCutIsNotAskedAbout() throws Exception {
    fleetOfBoth();

    assertThat(tokens("{\"model\":\"m\",\"prompt\":\"x\",\"truncate_prompt_tokens\":1}"))
        .isEqualTo(new Tokenization.Unavailable("truncation"));
    assertThat(a.seen).isEmpty();
  }

  @Test
  void withoutAReadyWorkerThereAreNoTokens() throws Exception {
    assertThat(tokens(TEXT.formatted("x")))
        .isEqualTo(new Tokenization.Unavailable("worker_no_worker"));
  }

  @Test
  void aQuestionBeyondTheLimitIsNotQueued() throws Exception {
    fleetOfBoth();
    a.gate = new CountDownLatch(1);
    b.gate = a.gate;
    CompletableFuture<Tokenization> first = asked(TEXT.formatted("x"));

    assertThat(tokens(TEXT.formatted("y"))).isEqualTo(new Tokenization.Unavailable("worker_busy"));

    a.gate.countDown();
    assertExact(first.get(10, TimeUnit.SECONDS), 1, 2);
    assertExact(tokens(TEXT.formatted("y")), 1, 2);
  }

  @Test
  void aBrokenWorkerMeansNoTokensAndIsToldByAWord() throws Exception {
    fleetOfBoth();
    a.answers.put("/tokenize", new FakeWorker.Answer(500, "{}"));
    b.answers.put("/tokenize", new FakeWorker.Answer(500, "{}"));

    assertThat(tokens(TEXT.formatted("x"))).isEqualTo(new Tokenization.Unavailable("worker_error"));
  }
}
