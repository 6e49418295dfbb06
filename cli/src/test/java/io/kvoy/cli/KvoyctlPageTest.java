// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Runs the examples of docs/kvoyctl.md. */
class KvoyctlPageTest {

  private static final Pattern EXAMPLE =
      Pattern.compile(
          "```sh\nbin/kvoyctl (?<args>[^\n]*?)( <<'EOF'\n(?<input>.*?)EOF)?\n```\n"
              + "(?<between>.*?)```text\n(?<output>.*?)```\n",
          Pattern.DOTALL);

  @Test
  void examplesPrintWhatThePageShows() throws IOException {
    String page = Files.readString(Vectors.root().resolve("docs/kvoyctl.md"));
    Matcher example = EXAMPLE.matcher(page);
    int examples = 0;
    while (example.find()) {
      examples++;
      String args = example.group("args").replace("models/qwen3", Vectors.tokenizer("qwen3"));
      String input = example.group("input");
      Ran ran = Ran.withInput(input == null ? List.of() : input.lines().toList(), args.split(" "));

      assertThat(ran.err()).isEmpty();
      if (example.group("between").isBlank()) {
        assertThat(ran.out()).as(args).isEqualTo(example.group("output"));
      } else {
        assertThat(ran.out()).as(args).startsWith(example.group("output"));
        assertThat(example.group("between")).contains(" " + ran.out().lines().count() + " lines");
      }
    }
    assertThat(examples).isEqualTo(5);
  }
}
