// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.json;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

class JsonTextTest {
  private enum Word {
    RED
  }

  private record Plain(String name, @Nullable String nothing, double millis) {}

  private record Empty() {}

  private sealed interface Shape {}

  private record Circle(int radius) implements Shape {}

  static List<Arguments> values() {
    return List.of(
        Arguments.of(true, "true"),
        Arguments.of(7, "7"),
        Arguments.of(9_007_199_254_740_993L, "9007199254740993"),
        Arguments.of(1.5, "1.5"),
        Arguments.of(2.0, "2"),
        Arguments.of(1e300, "1.0E300"),
        Arguments.of(Double.NaN, "null"),
        Arguments.of(Double.NEGATIVE_INFINITY, "null"),
        Arguments.of(Duration.ofMillis(250), "250"),
        Arguments.of(Duration.ofNanos(1_500_000), "1.5"),
        Arguments.of(Instant.EPOCH, "\"1970-01-01T00:00:00Z\""),
        Arguments.of(Path.of("/a/b"), "\"/a/b\""),
        Arguments.of(Optional.empty(), "null"),
        Arguments.of(Optional.of(List.of(1)), "[1]"),
        Arguments.of(OptionalInt.of(3), "3"),
        Arguments.of(OptionalInt.empty(), "null"),
        Arguments.of(List.of(), "[]"),
        Arguments.of(Map.of(), "{}"),
        Arguments.of(new LinkedHashMap<>(Map.of(Word.RED, 1)), "{\"RED\":1}"),
        Arguments.of(new int[] {1, 2}, "[1, 2]"),
        Arguments.of(new String[] {"a"}, "[\"a\"]"),
        Arguments.of(Word.RED, "\"RED\""),
        Arguments.of(new Empty(), "{}"),
        Arguments.of(
            new Plain("a", null, 0.25), "{\"name\":\"a\",\"nothing\":null,\"millis\":0.25}"),
        Arguments.of(new Circle(2), "{\"type\":\"Circle\",\"radius\":2}"),
        Arguments.of(
            "q\"b\\s/n\n\t\u0000\u007f\u2028", "\"q\\\"b\\\\s/n\\n\\t\\u0000\\u007f\\u2028\""),
        Arguments.of("</script>", "\"\\u003c/script>\""),
        Arguments.of("🙂", "\"🙂\""),
        Arguments.of("\ud83d", "\"\\ud83d\""),
        Arguments.of("\ude42\ud83d", "\"\\ude42\\ud83d\""));
  }

  @ParameterizedTest(name = "{1}")
  @MethodSource("values")
  void writesEachKindOfValue(Object value, String json) {
    assertThat(JsonText.of(value)).isEqualTo(json);
  }

  @Test
  void aValueThatHoldsItselfEnds() {
    List<Object> list = new ArrayList<>();
    list.add(list);

    assertThat(JsonText.of(list)).contains("too deep").endsWith("]");
  }
}
