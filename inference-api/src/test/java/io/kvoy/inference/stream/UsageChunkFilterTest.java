// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.TestFiles;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class UsageChunkFilterTest {
  private static final String TEXT =
      "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
  private static final String USAGE =
      "data: {\"id\":\"a\",\"choices\":[],\"usage\":{\"prompt_tokens\":11}}\n\n";
  private static final String DONE = "data: [DONE]\n\n";

  private static byte[] filtered(byte[] body, int... cuts) {
    UsageChunkFilter filter = new UsageChunkFilter();
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    int from = 0;
    for (int i = 0; i <= cuts.length; i++) {
      int to = i < cuts.length ? cuts[i] : body.length;
      write(filter.filter(ByteBuffer.wrap(body, from, to - from)), out);
      from = to;
    }
    write(filter.end(), out);
    return out.toByteArray();
  }

  private static void write(ByteBuffer bytes, ByteArrayOutputStream out) {
    byte[] copy = new byte[bytes.remaining()];
    bytes.duplicate().get(copy);
    out.writeBytes(copy);
  }

  @ParameterizedTest
  @ValueSource(strings = {"\n", "\r\n", "\r"})
  void STREAM_07_usageChunkIsHiddenForEveryCut(String lineEnd) {
    String stream = ": hi\n\n" + TEXT + TEXT + USAGE + DONE;
    byte[] body = stream.replace("\n", lineEnd).getBytes(UTF_8);
    byte[] expected = stream.replace(USAGE, "").replace("\n", lineEnd).getBytes(UTF_8);
    for (int cut = 0; cut <= body.length; cut++) {
      assertThat(filtered(body, cut)).as("cut at %s", cut).isEqualTo(expected);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"\n", "\r\n", "\r"})
  void STREAM_07_theStampOfTheUsageChunkIsWhereItWouldHaveBeenForEveryCut(String lineEnd) {
    // As vLLM 0.32 writes a chat, then a completion.
    for (String none : new String[] {"", ",\"system_fingerprint\":null"}) {
      String end =
          "data: {\"id\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"}\"},"
              + "\"finish_reason\":\"length\"}]";
      String stamp = ",\"system_fingerprint\":\"vllm-0.32.0-e9387bcf\"";
      String usage = USAGE.replace("}}\n", "}" + stamp + "}\n");
      String sent = TEXT + end + none + "}\n\n" + usage + DONE;
      byte[] body = sent.replace("\n", lineEnd).getBytes(UTF_8);
      byte[] expected =
          (TEXT + end + stamp + "}\n\n" + DONE).replace("\n", lineEnd).getBytes(UTF_8);
      for (int cut = 0; cut <= body.length; cut++) {
        assertThat(filtered(body, cut)).as("cut at %s", cut).isEqualTo(expected);
      }
    }
  }

  @Test
  void anEndingWithoutUsageBehindItIsLeftAsItIs() {
    String sent = TEXT + TEXT.replace("}}]", "},\"finish_reason\":\"stop\"}]") + DONE;
    byte[] body = sent.getBytes(UTF_8);
    for (int cut = 0; cut <= body.length; cut++) {
      assertThat(filtered(body, cut)).as("cut at %s", cut).isEqualTo(body);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "chat-usage-cached.sse, true",
    "completion-usage.sse, true",
    "chat-continuous-usage.sse, true",
    "chat.sse, false",
    "chat-n2-logprobs.sse, false",
    "responses.sse, false",
    "messages.sse, false"
  })
  void recordedStreamsLoseTheirUsageChunkAndKeepItsStamp(String file, boolean hasChunk) {
    String text = TestFiles.text("vectors/stream/" + file);
    String expected = text;
    if (hasChunk) {
      int end = text.lastIndexOf("data: [DONE]");
      int start = text.lastIndexOf("data: ", end - 1);
      String usage = text.substring(start, end);
      expected = stamped(text.substring(0, start), usage) + text.substring(end);
    }
    byte[] body = text.getBytes(UTF_8);
    Random random = new Random(1);
    for (int round = 0; round < 200; round++) {
      int a = random.nextInt(body.length + 1);
      int b = a + random.nextInt(body.length - a + 1);
      assertThat(new String(filtered(body, a, b), UTF_8)).isEqualTo(expected);
    }
    int[] every = new int[body.length];
    java.util.Arrays.setAll(every, i -> i);
    assertThat(new String(filtered(body, every), UTF_8)).isEqualTo(expected);
  }

  /** What vLLM writes on the last chunk with a choice when no usage chunk follows. */
  private static String stamped(String events, String usage) {
    Matcher stamp = Pattern.compile("\"system_fingerprint\":\"[^\"]*\"").matcher(usage);
    if (!stamp.find()) {
      return events;
    }
    String none = "\"system_fingerprint\":null";
    int last = events.lastIndexOf("data: ");
    String event = events.substring(last);
    String with =
        event.contains(none)
            ? event.replace(none, stamp.group())
            : event.replace("}\n", "," + stamp.group() + "}\n");
    return events.substring(0, last) + with;
  }

  @Test
  void textOfAWholeEventIsNeverHeldBack() {
    UsageChunkFilter filter = new UsageChunkFilter();
    assertThat(filter.filter(ByteBuffer.wrap((TEXT + "data: {").getBytes(UTF_8))).remaining())
        .isEqualTo(TEXT.length());
  }

  @Test
  void theEndingGoesOutWithTheNextEvent() {
    UsageChunkFilter filter = new UsageChunkFilter();
    String end = TEXT.replace("}}]", "},\"finish_reason\":\"stop\"}]");
    assertThat(filter.filter(ByteBuffer.wrap(end.getBytes(UTF_8))).remaining()).isZero();
    assertThat(filter.filter(ByteBuffer.wrap(USAGE.getBytes(UTF_8))).remaining())
        .isEqualTo(end.length());
  }

  @Test
  void untouchedChunksAreNotCopied() {
    UsageChunkFilter filter = new UsageChunkFilter();
    ByteBuffer chunk = ByteBuffer.wrap((TEXT + TEXT).getBytes(UTF_8));
    assertThat(filter.filter(chunk)).isSameAs(chunk);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "data: {\"choices\":[]}\n\n",
        "data: {\"choices\":[],\"usage\":null}\n\n",
        "data: {\"usage\":{\"prompt_tokens\":1}}\n\n",
        "data: {\"choices\":[{}],\"usage\":{}}\n\n",
        "data: {\"choices\":[],\"usage\":{}\n\n",
        "data: {\"choices\":[],\"usage\":{}} x\n\n",
        "data: {\"error\":{\"message\":\"m\"}}\n\n",
        "event: x\n\n",
        "\n\n\n",
        "data: {\"choices\":[]"
      })
  void everythingElseGoesThrough(String stream) {
    byte[] body = stream.getBytes(UTF_8);
    for (int cut = 0; cut <= body.length; cut++) {
      assertThat(new String(filtered(body, cut), UTF_8)).isEqualTo(stream);
    }
  }

  @Test
  void heldBytesAreBounded() {
    UsageChunkFilter filter = new UsageChunkFilter();
    byte[] start = "data: {\"x\":\"".getBytes(UTF_8);
    byte[] filler = "y".repeat(1000).getBytes(UTF_8);
    int forwarded = filter.filter(ByteBuffer.wrap(start)).remaining();
    for (int i = 0; i < 100; i++) {
      forwarded += filter.filter(ByteBuffer.wrap(filler)).remaining();
    }
    assertThat(start.length + 100_000 - forwarded).isLessThanOrEqualTo(1 << 14);
  }

  @Test
  void usageIsStillSeenByTheWatcherInFront() {
    byte[] body = (TEXT + USAGE + DONE).getBytes(UTF_8);
    ResponseWatcher watcher = new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
    watcher.feed(body, 0, body.length);
    assertThat(watcher.end().usage().promptTokens()).hasValue(11);
    assertThat(new String(filtered(body), UTF_8)).isEqualTo(TEXT + DONE);
  }
}
