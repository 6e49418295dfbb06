// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import io.kvoy.inference.ApiKind;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.List;

/** The first byte chooses the API, the second where the rest is cut into chunks. */
class StreamFuzzTest {
  private static final List<ApiKind> APIS =
      List.of(ApiKind.CHAT_COMPLETIONS, ApiKind.RESPONSES, ApiKind.MESSAGES, ApiKind.COUNT_TOKENS);

  @FuzzTest(maxDuration = "10m")
  void anyAnswerIsReadTheSameHoweverItIsCut(byte[] input) {
    if (input.length < 2) {
      return;
    }
    ApiKind api = APIS.get((input[0] & 0xFF) % APIS.size());
    int step = 1 + (input[1] & 0x3F);
    for (BodyForm form : List.of(BodyForm.EVENT_STREAM, BodyForm.JSON)) {
      ResponseWatcher whole = new ResponseWatcher(api, form);
      ResponseWatcher cut = new ResponseWatcher(api, form);
      whole.feed(input, 2, input.length - 2);
      int firstTokens = 0;
      for (int at = 2; at < input.length; at += step) {
        firstTokens += cut.feed(input, at, Math.min(step, input.length - at)) ? 1 : 0;
      }
      assertThat(firstTokens).isLessThanOrEqualTo(1);
      Observation seen = whole.end();
      assertThat(cut.end()).isEqualTo(seen);
      seen.usage().promptTokens().ifPresent(count -> assertThat(count).isNotNegative());
      seen.usage().cachedTokens().ifPresent(count -> assertThat(count).isNotNegative());
      seen.usage().completionTokens().ifPresent(count -> assertThat(count).isNotNegative());
    }
    filter(input, step);
  }

  private static void filter(byte[] input, int step) {
    byte[] whole = filtered(input, input.length);
    assertThat(filtered(input, step)).isEqualTo(whole);
    assertThat(whole.length).isLessThanOrEqualTo(input.length - 2);
  }

  private static byte[] filtered(byte[] input, int step) {
    UsageChunkFilter filter = new UsageChunkFilter();
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    for (int at = 2; at < input.length; at += step) {
      write(filter.filter(ByteBuffer.wrap(input, at, Math.min(step, input.length - at))), out);
    }
    write(filter.end(), out);
    assertThat(filter.removedEvents() > 0).isEqualTo(out.size() < input.length - 2);
    return out.toByteArray();
  }

  private static void write(ByteBuffer bytes, ByteArrayOutputStream out) {
    byte[] copy = new byte[bytes.remaining()];
    bytes.duplicate().get(copy);
    out.writeBytes(copy);
  }
}
