// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;

/**
 * Any body of a chat or responses request to a gpt-oss model: a value comes back, always the same.
 */
class HarmonyFuzzTest {
  private static final HarmonyRenderer RENDERER =
      new HarmonyRenderer(false, Clock.fixed(Instant.EPOCH, ZoneOffset.UTC));

  private static final List<ApiKind> APIS =
      List.of(ApiKind.CHAT_COMPLETIONS, ApiKind.RESPONSES, ApiKind.MESSAGES);

  @FuzzTest(maxDuration = "10m")
  void anyBodyIsRenderedWithoutHarm(byte[] body) {
    for (ApiKind api : APIS) {
      if (!(Dialects.parse(api, body) instanceof RequestParse.Parsed(var request))
          || !(request.prompt() instanceof Prompt.Chat chat)) {
        continue;
      }
      HarmonyResult result = RENDERER.render(chat);

      assertThat(RENDERER.render(chat)).isEqualTo(result);
      switch (result) {
        case HarmonyResult.Rendered rendered -> {
          assertThat(rendered.text()).startsWith("<|start|>system").endsWith("<|start|>assistant");
          // Texts are the body's own, but a schema's parts may be shown with each of its variants.
          assertThat(rendered.text().length()).isLessThan(1000 + 1000 * body.length);
        }
        case HarmonyResult.Refused _ -> {}
        case HarmonyResult.Unsupported(String feature) -> assertThat(feature).matches("[a-z_]+");
      }
    }
  }
}
