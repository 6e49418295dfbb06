// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.inference.Json;
import java.io.IOException;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * With a real tokenizer and chat template, what the simulated model said is found again in the next
 * turn.
 */
class FolderSimTokenizerIT {
  private static final String QUESTION =
      "When does the first train go up, and may I bring my bicycle on it? ".repeat(8).strip();

  @ParameterizedTest
  @ValueSource(strings = {"qwen3", "llama3_1", "gemma3"})
  void theNextTurnFindsPromptAndAnswer(String name) throws IOException {
    SimTokenizer tokenizer = FolderSimTokenizer.load(LocalTools.find().tokenizer(name));
    try (SimWorker worker =
        SimWorker.start(
            SimOptions.builder("m")
                .tokenizer(tokenizer)
                .timeScale(100)
                .engine(EngineOptions.DEFAULTS.withCache(256, 16, 4096))
                .events(EventOptions.OFF)
                .build())) {
      Json.Obj first = chat(worker, message("user", QUESTION), 40);
      Json.Obj choice = (Json.Obj) ((Json.Arr) field(first, "choices")).items().getFirst();
      String said = Recording.string(Recording.object(choice, "message"), "content");
      int spoken = Recording.number(Recording.object(first, "usage"), "total_tokens");
      Json.Obj second =
          chat(
              worker,
              String.join(
                  ",",
                  List.of(
                      message("user", QUESTION),
                      message("assistant", said),
                      message("user", "And then?"))),
              1);
      Json.Obj details = Recording.object(second, "usage", "prompt_tokens_details");
      // The last token said was never computed; the template may add to the question's end.
      assertThat(Recording.number(details, "cached_tokens"))
          .isBetween((spoken - 1) / 16 * 16 - 16, (spoken - 1) / 16 * 16);
      assertThat(Recording.number(Recording.object(first, "usage"), "completion_tokens"))
          .isEqualTo(40);
    }
  }

  private static Json field(Json.Obj object, String name) {
    return Objects.requireNonNull(object.get(name), name);
  }

  private static String message(String role, String content) {
    return "{\"role\":\"%s\",\"content\":\"%s\"}".formatted(role, content);
  }

  private static Json.Obj chat(SimWorker worker, String messages, int maxTokens)
      throws IOException {
    RawHttp.Answer answer =
        RawHttp.post(
            worker.port(),
            "/v1/chat/completions",
            "{\"model\":\"m\",\"messages\":[%s],\"max_tokens\":%d,\"ignore_eos\":true}"
                .formatted(messages, maxTokens));
    assertThat(answer.statusLine()).as(answer.body()).contains("200");
    return Recording.json(answer.body());
  }
}
