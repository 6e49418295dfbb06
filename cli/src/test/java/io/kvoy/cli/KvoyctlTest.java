// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PipedInputStream;
import java.io.PipedOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KvoyctlTest {

  private static final String HASH_LINE =
      "{\"algo\":\"sha256\",\"block_size\":2,\"token_ids\":[1,2,3]}";

  @Test
  void helpNamesEveryCommand() {
    Ran ran = Ran.kvoyctl("--help");

    assertThat(ran.status()).isZero();
    assertThat(ran.out()).contains("tokenize", "hash", "kv-replay", "envoy", "Exit status:");
    assertThat(ran.err()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"tokenize", "hash", "kv-replay", "envoy", "envoy bootstrap"})
  void eachCommandHasHelpAndVersion(String command) {
    for (String option : List.of("--help", "--version")) {
      Ran ran = Ran.kvoyctl((command + " " + option).split(" "));

      assertThat(ran.status()).isZero();
      assertThat(ran.out()).startsWith(option.equals("--help") ? "Usage: kvoyctl " : "kvoyctl ");
    }
  }

  @ParameterizedTest
  @CsvSource({
    "tokenise, kvoyctl tokenize",
    "envoy bootstrp, envoy bootstrap",
    "tokenize --tokeniser x --endpoint /v1/completions, --tokenizer",
    "tokenize --tokenizer x --endpoint /v1/completions --templat y, --template",
    "kv-replay --blocksize 16, --block-size",
    "envoy bootstrap --workers 10.0.0.1:80 --fail-close, --fail-closed",
  })
  void wrongWordIsRefusedWithWhatWasMeant(String line, String meant) {
    Ran ran = Ran.kvoyctl(line.split(" "));

    assertThat(ran.status()).isEqualTo(2);
    assertThat(ran.err()).contains(meant).contains("--help'");
    assertThat(ran.out()).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "envoy",
        "kv-replay --block-size 0",
        "kv-replay --block-size many",
        "tokenize --endpoint /v1/completions",
        "tokenize --tokenizer x --endpoint /v1/embeddings",
        "tokenize --tokenizer x --endpoint /v1/completions --block-size -1",
        "tokenize --tokenizer x --endpoint /v1/completions --default-chat-template-kwargs []",
        "envoy bootstrap",
      })
  void badUsageIsStatus2(String line) {
    Ran ran = Ran.kvoyctl(line.isEmpty() ? new String[0] : line.split(" "));

    assertThat(ran.status()).isEqualTo(2);
    assertThat(ran.err()).startsWith("kvoyctl: ");
  }

  @Test
  void lineThatCannotBeReadIsAnsweredInPlaceAndTheRestGoOn() {
    Ran ran =
        Ran.withInput(List.of(HASH_LINE, "{nonsense", "", "[1]", "{\"a\":1}", HASH_LINE), "hash");

    assertThat(ran.status()).isEqualTo(1);
    assertThat(ran.answers()).hasSize(6);
    assertThat(ran.answers().stream().map(answer -> answer.fields().firstEntry().getKey()))
        .containsExactly("hashes", "error", "error", "error", "error", "hashes");
    assertThat(ran.out()).doesNotContain("nonsense").contains("field algo is required");
    assertThat(ran.err()).isEmpty();
  }

  @Test
  void emptyInputIsAnsweredByNothing() {
    assertThat(Ran.kvoyctl("hash")).isEqualTo(new Ran(0, "", ""));
  }

  @Test
  void lastLineNeedsNoLineEnd() {
    var out = new java.io.ByteArrayOutputStream();

    int status =
        Kvoyctl.execute(
            new ByteArrayInputStream(HASH_LINE.getBytes(StandardCharsets.UTF_8)),
            out,
            OutputStream.nullOutputStream(),
            "hash");

    assertThat(status).isZero();
    assertThat(out.toString(StandardCharsets.UTF_8)).startsWith("{\"hashes\":[\"").endsWith("]}\n");
  }

  @Test
  @Timeout(20)
  void eachAnswerIsThereBeforeTheNextQuestion() throws Exception {
    PipedOutputStream questions = new PipedOutputStream();
    try (PipedInputStream in = new PipedInputStream(questions);
        PipedInputStream answers = new PipedInputStream();
        PipedOutputStream out = new PipedOutputStream(answers)) {
      Thread program =
          Thread.ofPlatform()
              .start(() -> Kvoyctl.execute(in, out, OutputStream.nullOutputStream(), "hash"));
      byte[] question = (HASH_LINE + "\n").getBytes(StandardCharsets.UTF_8);
      for (int i = 0; i < 3; i++) {
        questions.write(question);
        questions.flush();
        assertThat(lineOf(answers)).startsWith("{\"hashes\":");
      }
      questions.close();
      program.join();
    }
  }

  private static String lineOf(PipedInputStream in) throws IOException {
    StringBuilder line = new StringBuilder();
    for (int read = in.read(); read >= 0 && read != '\n'; read = in.read()) {
      line.append((char) read);
    }
    return line.toString();
  }

  @Test
  void readerThatIsGoneIsStatus1() {
    OutputStream closed =
        new OutputStream() {
          @Override
          public void write(int b) throws IOException {
            throw new IOException("Broken pipe");
          }
        };

    int status =
        Kvoyctl.execute(
            new ByteArrayInputStream((HASH_LINE + "\n").getBytes(StandardCharsets.UTF_8)),
            closed,
            OutputStream.nullOutputStream(),
            "hash");

    assertThat(status).isEqualTo(1);
  }
}
