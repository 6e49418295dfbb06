// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import java.util.Arrays;

class BodyMemoryFuzzTest {
  private static final JsonReader PLAIN = new JsonReader(JsonLimits.DEFAULTS);

  /** Two documents with a common beginning; the first bytes say where each goes its own way. */
  @FuzzTest(maxDuration = "10m")
  void secondDocumentMeansTheSameWithAndWithoutTheFirst(byte[] input) {
    if (input.length < 4) {
      return;
    }
    int rest = input.length - 4;
    int common = (((input[0] & 0x7F) << 8) | (input[1] & 0xFF)) % (rest + 1);
    int first = Math.min(rest, common + (input[2] & 0xFF));
    byte[] document = Arrays.copyOfRange(input, 4, 4 + first);
    byte[] next = Arrays.copyOfRange(input, 4, 4 + rest);
    System.arraycopy(next, first, next, Math.min(common, first), rest - first);
    JsonReader reader =
        new JsonReader(JsonLimits.DEFAULTS, new BodyMemory(1 << 20, BodyMemory.SAMPLE_BYTES));

    assertThat(reader.read(document)).isEqualTo(PLAIN.read(document));
    assertThat(reader.read(next)).isEqualTo(PLAIN.read(next));
  }
}
