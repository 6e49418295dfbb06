// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.json.BodyEdit;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.SpliceableBody;
import java.util.List;
import java.util.Objects;

/** What must hold for every body that anyone may send. */
final class FuzzedBody {
  private FuzzedBody() {}

  static void check(ApiKind api, byte[] body) {
    ParsedBody read = Dialects.read(api, body, ParseOptions.DEFAULTS);
    switch (read.parse()) {
      case RequestParse.Malformed malformed -> {
        assertThat(malformed.message()).hasSizeLessThan(512).matches("[ -~]+");
        assertThat(malformed.reason()).matches("[a-z0-9_]+");
      }
      case RequestParse.PassThrough pass -> assertThat(pass.reason()).matches("[a-z0-9_]+");
      case RequestParse.Parsed(InferenceRequest request) -> {
        assertThat(request.model()).isNotEmpty();
        assertThat(request.promptCount()).isPositive();
        assertThat(request.maxTokens().orElse(0)).isBetween(0L, (long) Integer.MAX_VALUE);
        rewrite(api, Objects.requireNonNull(read.body()), request);
      }
    }
  }

  /** A changed model changes the model and nothing else that the worker reads. */
  private static void rewrite(ApiKind api, SpliceableBody body, InferenceRequest request) {
    byte[] edited = body.apply(List.of(new BodyEdit.Put("model", new Json.Str("fuzz-model"))));
    Json.Obj before = object(body.bytes());
    Json.Obj after = object(edited);
    assertThat(after.get("model")).isEqualTo(new Json.Str("fuzz-model"));
    assertThat(after.fields().keySet()).isEqualTo(before.fields().keySet());
    before
        .fields()
        .forEach(
            (key, value) -> {
              if (!key.equals("model")) {
                assertThat(Objects.requireNonNull(after.get(key))).isEqualTo(value);
              }
            });
    assertThat(Dialects.parse(api, edited)).isInstanceOf(RequestParse.Parsed.class);
    byte[] restored =
        SpliceableBody.of(edited, (JsonRead.Document) ParseOptions.DEFAULTS.reader().read(edited))
            .apply(List.of(new BodyEdit.Remove("model")));
    assertThat(object(restored).fields().keySet())
        .isEqualTo(object(body.apply(List.of(new BodyEdit.Remove("model")))).fields().keySet());
    assertThat(new String(edited, UTF_8)).contains("fuzz-model");
    assertThat(request.api()).isEqualTo(api);
  }

  private static Json.Obj object(byte[] body) {
    JsonRead read = ParseOptions.DEFAULTS.reader().read(body);
    assertThat(read).isInstanceOf(JsonRead.Document.class);
    return (Json.Obj) ((JsonRead.Document) read).value();
  }
}
