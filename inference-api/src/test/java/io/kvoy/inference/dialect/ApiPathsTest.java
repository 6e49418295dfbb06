// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class ApiPathsTest {

  @ParameterizedTest
  @EnumSource(names = "OTHER", mode = EnumSource.Mode.EXCLUDE)
  void HDR_06_everyApiIsFoundByItsPathAndByEveryVariantOfIt(ApiKind kind) {
    String path = kind.path();
    for (String variant :
        new String[] {
          path,
          path + "?x=1",
          path + "?",
          path + "/",
          path + "/?a=/b",
          path + "#f",
          "/" + path,
          path.replace("/", "//"),
          path.replaceFirst("/v1/", "/v1%2F"),
          path.replaceFirst("/v1/", "/v1%2f"),
          path.replace("s", "%73"),
          path.replace("/v1", "/v1/."),
          path.replace("/v1", "/x/../v1"),
          "/../.." + path
        }) {
      assertThat(Dialects.ofPath(variant)).as(variant).isEqualTo(kind);
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "/",
        "?",
        "/v1",
        "/v1/",
        "/health",
        "/v1/models",
        "/v1/embeddings",
        "/tokenize",
        "/v1/chat/completions/render",
        "/v1/chat/completions;x",
        "/V1/chat/completions",
        "/v1/Chat/completions",
        "/api/v1/chat/completions",
        "/v1/chat%252Fcompletions",
        "/v1/responses/resp_1",
        "/v1/chat/completions%",
        "/v1/chat/completions%2",
        "/%zz"
      })
  void otherPathsAreOther(String path) {
    assertThat(Dialects.ofPath(path)).isEqualTo(ApiKind.OTHER);
  }

  @ParameterizedTest
  @CsvSource({
    "/llm, /llm/v1/messages, MESSAGES",
    "/llm/, /llm/v1/messages?x, MESSAGES",
    "llm, /llm//v1/messages, MESSAGES",
    "/a/b, /a/b/v1/responses, RESPONSES",
    "/llm, /v1/messages, MESSAGES",
    "/llm, /llmv1/messages, OTHER",
    "/llm, /llm/llm/v1/messages, OTHER",
    "'', /llm/v1/messages, OTHER"
  })
  void HDR_06_configuredPrefixIsHonouredAndNotRequired(String prefix, String path, ApiKind kind) {
    assertThat(new ApiPaths(prefix).kindOf(path)).isEqualTo(kind);
  }

  @Test
  void lengthHidesNoInferencePath() {
    assertThat(Dialects.ofPath("/v1/messages" + "/".repeat(60_000))).isEqualTo(ApiKind.MESSAGES);
    assertThat(Dialects.ofPath("/v1/messages?" + "x".repeat(60_000))).isEqualTo(ApiKind.MESSAGES);
  }
}
