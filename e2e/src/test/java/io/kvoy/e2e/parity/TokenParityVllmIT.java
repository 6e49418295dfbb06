// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.parity;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.VllmOptions;
import io.kvoy.e2e.env.VllmProcess;
import io.kvoy.e2e.env.VllmRenderProcess;
import io.kvoy.tokenizer.FolderTokenizerLoader;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.TemplateChatText;
import io.kvoy.tokenizer.TokenizerLoader;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.net.URI;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * The ids that routing uses are those of real vLLM, in 100 of 100 requests that are declared exact,
 * and nearly all are.
 */
class TokenParityVllmIT {

  private static final long SEED = Long.getLong("kvoy.parity.seed", 20_261_130L);

  private static final int LEAST_EXACT_PERCENT = 95;

  /** The day that the rendering servers are told. */
  private static final Clock CLOCK =
      Clock.fixed(Instant.parse("2026-11-30T12:00:00Z"), ZoneOffset.UTC);

  private static PromptTokenizer load(Path folder) {
    var loader =
        new FolderTokenizerLoader(TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, CLOCK));
    return ((TokenizerLoader.Load.Loaded) loader.load(folder)).tokenizer();
  }

  private static void expectParity(String name, ParityCheck.Outcome outcome) {
    System.out.printf(
        "%s, seed %d: %d requests answered, %d refused; %d exact (%d %%) by API %s; estimated by"
            + " reason %s; %d wrong%n",
        name,
        SEED,
        outcome.answered(),
        outcome.refused(),
        outcome.exact(),
        outcome.exactPercent(),
        outcome.exactByApi(),
        outcome.estimatedByReason(),
        outcome.wrong().size());
    assertThat(outcome.wrong()).isEmpty();
    assertThat(outcome.exactPercent()).isGreaterThanOrEqualTo(LEAST_EXACT_PERCENT);
    assertThat(outcome.exactByApi()).as("every API is there").hasSize(5);
  }

  @Test
  void API_02_API_03_API_04_API_05_TOK_03_TOK_04_idsOf500RequestsEqualThoseOfARunningWorker()
      throws Exception {
    LocalTools tools = LocalTools.find();
    VllmOptions options =
        VllmOptions.tinyQwen3(tools, "parity")
            .withMore(
                List.of(
                    "--enable-scale-out",
                    "--enable-auto-tool-choice",
                    "--tool-call-parser",
                    "hermes"),
                Map.of());
    try (VllmProcess worker = VllmProcess.launch(tools, options)) {
      PromptTokenizer tokenizer = load(options.model());
      worker.awaitHealthy(VllmProcess.START_PATIENCE, System.out::println);

      ParityCheck.Outcome outcome =
          new ParityCheck(URI.create("http://" + options.listen()), tokenizer, true)
              .run(ParityRequests.of(options.servedModelName(), SEED, 500));

      expectParity("worker with tiny-qwen3", outcome);
      assertThat(outcome.answered()).isGreaterThan(450);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "qwen3, hermes",
    "llama3_1, hermes",
    "deepseek_v3, deepseek_v3",
    "gptoss, openai",
    "gemma3, hermes"
  })
  void TOK_03_idsOf300RequestsEqualThoseOfVllmForEachFamily(String family, String toolParser)
      throws Exception {
    LocalTools tools = LocalTools.find();
    try (var server = VllmRenderProcess.launch(tools, family, toolParser, LocalDate.now(CLOCK))) {
      PromptTokenizer tokenizer = load(tools.model("render-" + family));
      server.awaitHealthy(VllmProcess.START_PATIENCE, System.out::println);

      ParityCheck.Outcome outcome =
          new ParityCheck(server.address(), tokenizer, false)
              .run(ParityRequests.of(family, SEED, 300));

      expectParity(family, outcome);
      // Gemma's template refuses conversations whose roles do not alternate.
      assertThat(outcome.answered()).isGreaterThan(150);
    }
  }
}
