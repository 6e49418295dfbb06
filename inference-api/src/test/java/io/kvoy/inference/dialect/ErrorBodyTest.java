// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.inference.TestFiles;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class ErrorBodyTest {

  private static Json.Obj json(byte[] body) {
    return (Json.Obj) ((JsonRead.Document) new JsonReader(JsonLimits.DEFAULTS).read(body)).value();
  }

  private static String text(Json.Obj object, String field) {
    return ((Json.Str) Objects.requireNonNull(object.get(field))).value();
  }

  /** The same facts put in give the very bytes that vLLM 0.32 answered with. */
  @ParameterizedTest
  @CsvSource({
    "unknown-model-chat.http, CHAT_COMPLETIONS",
    "unknown-model-completion.http, COMPLETIONS",
    "unknown-model-messages.http, MESSAGES",
    "too-long-chat.http, RESPONSES",
    "too-long-messages.http, COUNT_TOKENS",
    "bad-json.http, CHAT_COMPLETIONS",
    "empty-messages.http, CHAT_COMPLETIONS"
  })
  void shapeEqualsTheWorkersOwn(String file, ApiKind api) {
    String http = TestFiles.text("vectors/errors/" + file).replace("\r\n", "\n");
    int status = Integer.parseInt(http.substring(9, 12));
    String body = http.substring(http.indexOf("\n\n") + 2).strip();
    Json.Obj error = (Json.Obj) Objects.requireNonNull(json(body.getBytes(UTF_8)).get("error"));
    String param = error.get("param") instanceof Json.Str(String p) ? p : null;

    byte[] ours = ErrorBody.of(api, status, text(error, "type"), text(error, "message"), param);

    assertThat(new String(ours, UTF_8)).isEqualTo(body);
  }

  @ParameterizedTest
  @EnumSource(ApiKind.class)
  void everyStatusHasATypeInEveryApi(ApiKind api) {
    for (int status : new int[] {400, 401, 403, 404, 408, 413, 415, 429, 500, 502, 503, 504}) {
      Json.Obj error =
          (Json.Obj) Objects.requireNonNull(json(ErrorBody.of(api, status, "m")).get("error"));
      assertThat(text(error, "type")).isNotEmpty();
      assertThat(text(error, "message")).isEqualTo("m");
    }
  }

  @Test
  void anthropicClientsGetAnthropicTypes() {
    assertThat(new String(ErrorBody.of(ApiKind.MESSAGES, 429, "slow down"), UTF_8))
        .isEqualTo(
            "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow down\"}}");
  }

  @Test
  void longMessagesAreCutAndOddOnesEscaped() {
    byte[] body = ErrorBody.of(ApiKind.CHAT_COMPLETIONS, 400, "a\"\n\ud83d" + "x".repeat(10_000));
    assertThat(body.length).isLessThan(512);
    assertThat(new String(body, UTF_8)).contains("a\\\"\\n\\ud83dx");
    json(body);
  }
}
