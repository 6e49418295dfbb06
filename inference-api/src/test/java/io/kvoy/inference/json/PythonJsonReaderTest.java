// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Messages and positions are those of {@code json.loads} in CPython 3.11.7. */
class PythonJsonReaderTest {

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      textBlock =
          """
          {"a":              | Expecting value | 5
          {"a" 1}            | Expecting ':' delimiter | 5
          [1,2               | Expecting ',' delimiter | 4
          [1,]               | Expecting value | 3
          {"a":1,}           | Expecting property name enclosed in double quotes | 7
          "abc               | Unterminated string starting at | 0
          tru                | Expecting value | 0
          {"a":1} x          | Extra data | 8
          {a:1}              | Expecting property name enclosed in double quotes | 1
          [1 2]              | Expecting ',' delimiter | 3
          "\\q"              | Invalid \\escape | 1
          "\\u12g4"          | Invalid \\uXXXX escape | 2
          -                  | Expecting value | 0
          01                 | Extra data | 1
          1.                 | Extra data | 1
          .5                 | Expecting value | 0
          1e                 | Extra data | 1
          {"a":"b" "c":1}    | Expecting ',' delimiter | 9
          ["😀" 1]           | Expecting ',' delimiter | 5
          """)
  void refusesInPythonsWords(String text, String message, int position) {
    assertThat(PythonJsonReader.read(text))
        .isEqualTo(new PythonJsonReader.Outcome.Failed(message, position));
  }

  @Test
  void refusesNothingAndControlCharacters() {
    assertThat(PythonJsonReader.read(""))
        .isEqualTo(new PythonJsonReader.Outcome.Failed("Expecting value", 0));
    assertThat(PythonJsonReader.read("\"a\tb\""))
        .isEqualTo(new PythonJsonReader.Outcome.Failed("Invalid control character at", 2));
  }

  @Test
  void depthIsBounded() {
    assertThat(PythonJsonReader.read("[".repeat(100_000)))
        .isInstanceOf(PythonJsonReader.Outcome.Failed.class);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{\"a\": [1, -2.5, null, true, \"x\\\"y\"], \"b\": {}}",
        "[12345678901234567890123, []]",
        "\"\\u0001é😀\""
      })
  void whatIsReadIsWrittenTheSame(String text) {
    assertThat(PythonJsonReader.read(text))
        .isInstanceOfSatisfying(
            PythonJsonReader.Outcome.Read.class,
            read ->
                assertThat(PythonJson.dumps(read.value(), PythonJson.Style.UNICODE))
                    .isEqualTo(text));
  }
}
