// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import io.kvoy.tokenizer.bpe.BpeFileRead;
import io.kvoy.tokenizer.bpe.BpeFileReader;
import io.kvoy.tokenizer.encode.CutPoints;
import io.kvoy.tokenizer.encode.PostProcessor;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;

/**
 * Any content of a tokenizer folder: it is read or refused with a problem, never an exception, and
 * what the fast encoder makes of it encodes any text.
 */
class TokenizerFilesFuzzTest {

  private static final String TEXT = "a <s>b\u00e9 \ud83d\ude42 12\n";

  @TempDir static Path folder;

  @FuzzTest(maxDuration = "10m")
  void anyTokenizerJsonIsReadOrRefused(byte[] content) throws IOException {
    Files.write(folder.resolve("tokenizer.json"), content);
    read();
  }

  @FuzzTest(maxDuration = "10m")
  void anyConfigurationIsReadOrRefused(byte[] content) throws IOException {
    Files.writeString(
        folder.resolve("tokenizer.json"),
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    Files.write(folder.resolve("tokenizer_config.json"), content);
    read();
    Files.delete(folder.resolve("tokenizer_config.json"));
  }

  @FuzzTest(maxDuration = "10m")
  void anyTekkenFileIsReadOrRefused(byte[] content) {
    String converted = TekkenFile.asTokenizerJson(new String(content, StandardCharsets.UTF_8));

    if (converted != null) {
      assertThat(TokenizerJsonParser.read(converted)).isNotNull();
    }
  }

  private static void read() {
    switch (TokenizerFolderReader.read(folder)) {
      case FolderRead.Unusable(FolderProblem problem) ->
          assertThat(problem.nextStep()).isNotEmpty();
      case FolderRead.Complete(TokenizerFolder read) -> {
        assertThat(CutPoints.of(read)).isNotNull();
        assertThat(PostProcessor.read(read.pipeline().postProcessor())).isNotNull();
        switch (BpeFileReader.read(read)) {
          case BpeFileRead.Supported(var encoder) ->
              assertThat(encoder.encode(TEXT, true)).isNotNull();
          case BpeFileRead.Unsupported(String feature) -> assertThat(feature).isNotEmpty();
        }
      }
    }
  }
}
