// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
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
        assertThat(example.group("between")).contains("first lines");
      }
    }
    assertThat(examples).isEqualTo(5);
  }

  @Test
  void everyOptionIsOnThePage() throws IOException {
    String page = Files.readString(Vectors.root().resolve("docs/kvoyctl.md"));
    List<String> missing = new ArrayList<>();
    for (String command : List.of("tokenize", "hash", "kv-replay", "envoy bootstrap")) {
      List<String> args = new ArrayList<>(List.of(command.split(" ")));
      args.add("--help");
      Ran help = Ran.withInput(List.of(), args.toArray(String[]::new));
      int start = page.indexOf("## kvoyctl " + command);
      assertThat(start).as(command).isNotNegative();
      int end = page.indexOf("\n## ", start + 1);
      String section = page.substring(start, end < 0 ? page.length() : end);
      Matcher option = Pattern.compile("(?m)^ {2,10}(?:-\\w, )?(--[a-z-]+)").matcher(help.out());
      while (option.find()) {
        if (!section.contains(option.group(1))
            && !List.of("--help", "--version").contains(option.group(1))) {
          missing.add(command + " " + option.group(1));
        }
      }
    }
    assertThat(missing).isEmpty();
  }
}
