// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvoyctlTokenizeTest {

  private static final String HELLO =
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}";

  private static Ran tokenize(List<String> bodies, String endpoint, String... more) {
    List<String> args =
        new ArrayList<>(
            List.of("tokenize", "--tokenizer", Vectors.tokenizer("qwen3"), "--endpoint", endpoint));
    args.addAll(Arrays.asList(more));
    return Ran.withInput(bodies, args.toArray(String[]::new));
  }

  @ParameterizedTest
  @CsvSource({
    "/v1/chat/completions, 31",
    "/v1/completions, 6",
    "/v1/messages, 8",
    "/v1/responses, 4",
  })
  void textAndIdsEqualThoseOfVllm(String endpoint, int count) {
    List<Json.Obj> vectors = answered("qwen3.jsonl", endpoint);

    assertThat(vectors).hasSize(count);
    assertEqual(vectors, tokenize(bodies(vectors), endpoint));
  }

  @Test
  void extrasSuchAsTruncationEqualThoseOfVllm() {
    List<Json.Obj> vectors = answered("qwen3-extra.jsonl", "/v1/chat/completions");

    assertThat(vectors).hasSize(11);
    assertEqual(vectors, tokenize(bodies(vectors), "/v1/chat/completions"));
  }

  @Test
  void templateFileReplacesThatOfTheFolder() {
    List<Json.Obj> vectors = answered("qwen3-wide.jsonl", "/v1/chat/completions");

    assertThat(vectors).hasSize(7);
    assertEqual(
        vectors,
        tokenize(
            bodies(vectors),
            "/v1/chat/completions",
            "--template",
            Vectors.file("jinja-wide.jinja").toString()));
  }

  private static List<Json.Obj> answered(String file, String endpoint) {
    return Vectors.lines(file).stream()
        .filter(vector -> Vectors.text(vector, "endpoint").equals(endpoint))
        .filter(vector -> Vectors.number(vector, "status") == 200)
        .toList();
  }

  private static List<String> bodies(List<Json.Obj> vectors) {
    return vectors.stream()
        .map(vector -> Vectors.compact(Vectors.field(vector, "request")))
        .toList();
  }

  private static void assertEqual(List<Json.Obj> vectors, Ran ran) {
    assertThat(ran.status()).isZero();
    List<Json.Obj> answers = ran.answers();
    assertThat(answers).hasSameSizeAs(vectors);
    for (int i = 0; i < vectors.size(); i++) {
      Json.Obj vector = vectors.get(i);
      Json.Obj answer = answers.get(i);
      String id = Vectors.text(vector, "id");
      assertThat(answer.get("exact")).as(id).isEqualTo(new Json.Bool(true));
      assertThat(listOfLists(Vectors.field(answer, "ids")))
          .as(id)
          .isEqualTo(listOfLists(Vectors.field(vector, "token_ids")));
      if (vector.get("text") != null) {
        assertThat(answer.get("text")).as(id).isEqualTo(vector.get("text"));
      }
    }
  }

  /** vLLM's record of completions is always one. */
  private static Json listOfLists(Json ids) {
    return ids instanceof Json.Arr(List<Json> items) && !(items.getFirst() instanceof Json.Arr)
        ? new Json.Arr(List.of(ids))
        : ids;
  }

  @Test
  void severalPromptsAreListsAndPromptsOfIdsHaveNoText() {
    Ran ran =
        tokenize(
            List.of(
                "{\"model\":\"m\",\"prompt\":[\"first prompt\",\"one\"]}",
                "{\"model\":\"m\",\"prompt\":[[1,2,3],[4]]}",
                "{\"model\":\"m\",\"prompt\":[1,2,3]}",
                "{\"model\":\"m\",\"prompt\":\"one\"}"),
            "/v1/completions");

    assertThat(ran.out())
        .isEqualTo(
            """
            {"text":["first prompt","one"],"ids":[[3896,9934],[603]],"exact":true}
            {"text":null,"ids":[[1,2,3],[4]],"exact":true}
            {"text":null,"ids":[1,2,3],"exact":true}
            {"text":"one","ids":[603],"exact":true}
            """);
  }

  @Test
  void keysNameTheWholeBlocksAndDependOnTheSalt() {
    String ids = "\"prompt\":[1,2,3,4,5]";

    Ran ran =
        tokenize(
            List.of(
                "{\"model\":\"m\"," + ids + "}",
                "{\"model\":\"m\"," + ids + ",\"cache_salt\":\"tenant-7\"}",
                "{\"model\":\"m\",\"prompt\":[[1,2,3],[1,2,9,9]]}"),
            "/v1/completions",
            "--keys",
            "--block-size",
            "2");

    List<Json> keys = ran.answers().stream().map(answer -> Vectors.field(answer, "keys")).toList();
    assertThat(keys.get(0))
        .isInstanceOfSatisfying(
            Json.Arr.class,
            two -> {
              assertThat(two.items()).hasSize(2).doesNotHaveDuplicates();
              assertThat(two.items())
                  .allSatisfy(key -> assertThat(key.asString()).matches("[0-9a-f]{16}"));
            });
    List<Json> plain = ((Json.Arr) keys.get(0)).items();
    assertThat(((Json.Arr) keys.get(1)).items()).doesNotContainAnyElementsOf(plain);
    List<Json> each = ((Json.Arr) keys.get(2)).items();
    assertThat(((Json.Arr) each.get(0)).items()).containsExactly(plain.getFirst());
    assertThat(((Json.Arr) each.get(1)).items()).hasSize(2).startsWith(plain.getFirst());
  }

  @Test
  void whatTheWorkersIdsCannotBeKnownOfIsNotExactAndSaysWhy() {
    String image =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
            + "\"image_url\":{\"url\":\"data:,\"}}]}]}";

    Ran ran =
        tokenize(
            List.of(
                image,
                HELLO.replace("}]}", "}],\"truncate_prompt_tokens\":-1}"),
                "{\"model\":\"m\"}"),
            "/v1/chat/completions");

    assertThat(ran.status()).isZero();
    assertThat(ran.answers())
        .allSatisfy(
            answer -> assertThat(answer.fields().keySet()).containsExactly("exact", "reason"));
    assertThat(ran.answers().stream().map(answer -> Vectors.text(answer, "reason")))
        .startsWith("image_part", "truncation")
        .doesNotContain("");
  }

  @Test
  void defaultTemplateKwargsReachTheTemplateUnlessTheRequestSaysOtherwise() {
    String own = HELLO.replace("}]}", "}],\"chat_template_kwargs\":{\"enable_thinking\":true}}");

    Ran ran =
        tokenize(
            List.of(HELLO, own),
            "/v1/chat/completions",
            "--default-chat-template-kwargs",
            "{\"enable_thinking\":false}");

    assertThat(Vectors.text(ran.answers().get(0), "text")).endsWith("<think>\n\n</think>\n\n");
    assertThat(Vectors.text(ran.answers().get(1), "text")).endsWith("<|im_start|>assistant\n");
  }

  @Test
  void modelThatVllmRendersByItselfHasNoUseForATemplate() {
    Ran ran =
        Ran.withInput(
            List.of(HELLO),
            "tokenize",
            "--tokenizer",
            Vectors.tokenizer("gptoss"),
            "--template",
            Vectors.file("jinja-wide.jinja").toString(),
            "--endpoint",
            "/v1/chat/completions");

    assertThat(ran.out())
        .startsWith("{\"text\":\"<|start|>system<|message|>You are ChatGPT")
        .endsWith("\"exact\":true}\n");
  }

  @Test
  void folderOrTemplateThatIsNotThereIsStatus1(@TempDir Path empty) throws IOException {
    Ran noFolder =
        Ran.withInput(
            List.of(HELLO),
            "tokenize",
            "--tokenizer",
            empty.toString(),
            "--endpoint",
            "/v1/completions");
    Ran noTemplate =
        tokenize(
            List.of(HELLO),
            "/v1/chat/completions",
            "--template",
            empty.resolve("none.jinja").toString());
    Path broken = Files.writeString(empty.resolve("broken.jinja"), "\n{% if %}");
    Ran brokenTemplate =
        tokenize(List.of(HELLO), "/v1/chat/completions", "--template", broken.toString());

    assertThat(noFolder.status()).isEqualTo(1);
    assertThat(noFolder.err()).contains("no tokenizer.json");
    assertThat(noTemplate.status()).isEqualTo(1);
    assertThat(noTemplate.err()).contains("none.jinja");
    assertThat(brokenTemplate.status()).isEqualTo(1);
    assertThat(brokenTemplate.err()).contains("broken.jinja line 2");
  }
}
