// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.inference.TestFiles;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ResponseWatcherTest {
  private static final String ROLE =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
  private static final String TEXT =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";
  private static final String USAGE =
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3}}\n\n";

  private static Observation watched(ApiKind api, BodyForm form, byte[] body) {
    ResponseWatcher watcher = new ResponseWatcher(api, form);
    watcher.feed(body, 0, body.length);
    return watcher.end();
  }

  private static Observation chatStream(String body) {
    return watched(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM, body.getBytes(UTF_8));
  }

  private static TokenUsage usage(long prompt, long cached, long completion) {
    return new TokenUsage(count(prompt), count(cached), count(completion));
  }

  private static OptionalLong count(long value) {
    return value < 0 ? OptionalLong.empty() : OptionalLong.of(value);
  }

  /** Recorded answers of vLLM 0.32; -1 stands for not reported. */
  @ParameterizedTest
  @CsvSource({
    "chat.sse, CHAT_COMPLETIONS, -1, -1, -1",
    "chat-usage-cached.sse, CHAT_COMPLETIONS, 56, 32, 6",
    "chat-continuous-usage.sse, CHAT_COMPLETIONS, 56, 32, 4",
    "chat-n2-logprobs.sse, CHAT_COMPLETIONS, -1, -1, -1",
    "completion-usage.sse, COMPLETIONS, 7, 0, 6",
    "completion-token-ids.sse, COMPLETIONS, -1, -1, -1",
    "responses.sse, RESPONSES, 56, 32, 6",
    "messages.sse, MESSAGES, 56, 32, 6"
  })
  void recordedStreamsAreReadTheSameForEveryCut(
      String file, ApiKind api, long prompt, long cached, long completion) {
    byte[] body = TestFiles.bytes("vectors/stream/" + file);
    Observation whole = watched(api, BodyForm.EVENT_STREAM, body);
    assertThat(whole.usage()).isEqualTo(usage(prompt, cached, completion));
    assertThat(whole.ending()).isEqualTo(Ending.COMPLETE);
    assertThat(whole.firstTokenSeen()).isTrue();
    assertThat(whole.malformedUsage()).isZero();
    for (int cut = 0; cut <= body.length; cut++) {
      ResponseWatcher watcher = new ResponseWatcher(api, BodyForm.EVENT_STREAM);
      boolean first = watcher.feed(body, 0, cut);
      boolean second = watcher.feed(body, cut, body.length - cut);
      assertThat(first ^ second).as("first token is told once, cut at %s", cut).isTrue();
      assertThat(watcher.end()).as("cut at %s", cut).isEqualTo(whole);
    }
    ResponseWatcher byteByByte = new ResponseWatcher(api, BodyForm.EVENT_STREAM);
    for (byte b : body) {
      byteByByte.feed(ByteBuffer.wrap(new byte[] {b}));
    }
    assertThat(byteByByte.end()).isEqualTo(whole);
  }

  @ParameterizedTest
  @CsvSource({
    "chat-full.json, CHAT_COMPLETIONS, 56, 32, 4",
    "chat-full-orca.json, CHAT_COMPLETIONS, 56, 32, 4",
    "completion-full.json, COMPLETIONS, 7, 0, 4",
    "responses-full.json, RESPONSES, 56, 32, 4",
    "messages-full.json, MESSAGES, 56, 32, 4",
    "count-tokens.json, COUNT_TOKENS, 56, -1, -1"
  })
  void recordedWholeAnswersAreReadTheSameForEveryCut(
      String file, ApiKind api, long prompt, long cached, long completion) {
    byte[] body = TestFiles.bytes("vectors/stream/" + file);
    Observation whole = watched(api, BodyForm.JSON, body);
    assertThat(whole.usage()).isEqualTo(usage(prompt, cached, completion));
    assertThat(whole.ending()).isEqualTo(Ending.COMPLETE);
    assertThat(whole.firstTokenSeen()).isFalse();
    for (int cut = 0; cut <= body.length; cut++) {
      ResponseWatcher watcher = new ResponseWatcher(api, BodyForm.JSON);
      watcher.feed(body, 0, cut);
      if (cut < body.length) {
        assertThat(watcher.soFar().usage()).isEqualTo(TokenUsage.NOT_REPORTED);
      }
      watcher.feed(body, cut, body.length - cut);
      assertThat(watcher.end()).as("cut at %s", cut).isEqualTo(whole);
    }
  }

  @Test
  void responseIdIsTakenFromStreamAndWholeAnswer() {
    assertThat(
            watched(
                    ApiKind.RESPONSES,
                    BodyForm.EVENT_STREAM,
                    TestFiles.bytes("vectors/stream/responses.sse"))
                .responseId())
        .isEqualTo("resp_84ccfb6c3596e703");
    assertThat(
            watched(
                    ApiKind.RESPONSES,
                    BodyForm.JSON,
                    TestFiles.bytes("vectors/stream/responses-full.json"))
                .responseId())
        .isEqualTo("resp_ae34a29610069bd7");
  }

  @Test
  void STREAM_03_usageIsTheSameForEveryCut() {
    Json.Arr chunks =
        (Json.Arr)
            ((JsonRead.Document)
                    new JsonReader(JsonLimits.DEFAULTS)
                        .read(TestFiles.bytes("cases/stream-split.chunks.json")))
                .value();
    ResponseWatcher asRecorded =
        new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
    java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
    for (Json chunk : chunks.items()) {
      byte[] bytes = Base64.getDecoder().decode(((Json.Str) chunk).value());
      asRecorded.feed(ByteBuffer.wrap(bytes));
      all.writeBytes(bytes);
    }
    Observation expected = asRecorded.end();
    assertThat(expected.usage()).isEqualTo(usage(11, -1, 3));
    assertThat(expected.ending()).isEqualTo(Ending.COMPLETE);
    byte[] body = all.toByteArray();
    for (int cut = 0; cut <= body.length; cut++) {
      ResponseWatcher watcher =
          new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
      watcher.feed(body, 0, cut);
      watcher.feed(body, cut, body.length - cut);
      assertThat(watcher.end()).as("cut at %s", cut).isEqualTo(expected);
    }
  }

  @Test
  void STREAM_04_closeWithoutDoneIsClosedWithoutUsage() {
    Observation seen =
        watched(
            ApiKind.CHAT_COMPLETIONS,
            BodyForm.EVENT_STREAM,
            TestFiles.bytes("cases/stream-no-done.sse"));
    assertThat(seen.ending()).isEqualTo(Ending.CLOSED);
    assertThat(seen.usage()).isEqualTo(TokenUsage.NOT_REPORTED);
    assertThat(seen.firstTokenSeen()).isTrue();
    assertThat(seen.tokenEvents()).isEqualTo(1);
  }

  @Test
  void STREAM_05_errorInsideA200StreamIsAFailureWithoutFirstToken() {
    byte[] body = TestFiles.bytes("cases/stream-error-200.sse");
    for (int cut = 0; cut <= body.length; cut++) {
      ResponseWatcher watcher =
          new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
      boolean first = watcher.feed(body, 0, cut);
      first |= watcher.feed(body, cut, body.length - cut);
      Observation seen = watcher.end();
      assertThat(first || seen.firstTokenSeen()).isFalse();
      assertThat(seen.ending()).isEqualTo(Ending.ERROR);
      assertThat(seen.usage()).isEqualTo(TokenUsage.NOT_REPORTED);
    }
  }

  @Test
  void STREAM_06_usageOfAWrongTypeIsIgnoredAndCounted() {
    List<Observation> seen = new ArrayList<>();
    for (String line : TestFiles.lines("cases/stream-usage-wrong-type.jsonl")) {
      seen.add(watched(ApiKind.CHAT_COMPLETIONS, BodyForm.JSON, line.getBytes(UTF_8)));
    }
    assertThat(seen).extracting(Observation::ending).containsOnly(Ending.COMPLETE);
    assertThat(seen)
        .extracting(Observation::usage)
        .containsExactly(
            TokenUsage.NOT_REPORTED,
            TokenUsage.NOT_REPORTED,
            TokenUsage.NOT_REPORTED,
            usage(-1, -1, 1),
            usage(1, -1, -1),
            TokenUsage.NOT_REPORTED,
            TokenUsage.NOT_REPORTED);
    assertThat(seen).extracting(Observation::malformedUsage).containsExactly(1, 1, 1, 1, 1, 1, 0);
  }

  @Test
  void STREAM_08_firstTokenIsTheReasoningChunkNotTheRoleOrTheComment() {
    String stream = TestFiles.text("cases/stream-first-token.sse");
    String withoutNote = stream.replace("event: wait\ndata: 300ms\n\n", "");
    int reasoning = withoutNote.indexOf("\n\n", withoutNote.indexOf("reasoning_content")) + 2;
    byte[] body = withoutNote.getBytes(UTF_8);
    ResponseWatcher watcher = new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
    assertThat(watcher.feed(body, 0, reasoning - 1)).isFalse();
    assertThat(watcher.feed(body, reasoning - 1, 1)).isTrue();
    assertThat(watcher.feed(body, reasoning, body.length - reasoning)).isFalse();
    assertThat(chatStream(stream).firstTokenSeen()).as("the note is no JSON").isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\"}]}}]}",
        "{\"choices\":[{\"delta\":{\"reasoning\":\"\\n\"}}]}",
        "{\"choices\":[{\"index\":1,\"delta\":{\"content\":\"\\u00e9\"}}]}",
        "{\"choices\":[{\"delta\":{\"content\":\"\"}},{\"delta\":{\"content\":\"b\"}}]}",
        "{\"choices\":[{\"text\":\"t\"}]}"
      })
  void generatedContentOfEveryKindIsAFirstToken(String event) {
    assertThat(chatStream("data: " + event + "\n\n").firstTokenSeen()).isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        ": {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
        "id: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\",\"tool_calls\":[]}}]}",
        "data: {\"choices\":[{\"delta\":{\"content\":null}}]}",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}",
        "data: {\"other\":[{\"delta\":{\"content\":\"x\"}}]}",
        "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}",
        "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}}",
        "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]} {}",
        "data: hello",
        "data:",
        "data",
        "event: x"
      })
  void nothingElseIsAFirstToken(String line) {
    assertThat(chatStream(line + "\n\n").firstTokenSeen()).isFalse();
  }

  @Test
  void anthropicToolUseAndThinkingAreFirstTokens() {
    String toolUse =
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
            + "\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\",\"input\":{}}}\n\n";
    String emptyBlock =
        "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
    String thinking =
        "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"a\"}}\n\n";
    for (String event : List.of(toolUse, thinking)) {
      assertThat(
              watched(ApiKind.MESSAGES, BodyForm.EVENT_STREAM, event.getBytes(UTF_8))
                  .firstTokenSeen())
          .isTrue();
    }
    assertThat(
            watched(ApiKind.MESSAGES, BodyForm.EVENT_STREAM, emptyBlock.getBytes(UTF_8))
                .firstTokenSeen())
        .isFalse();
  }

  @Test
  void responseStreamsEndIncompleteAndBeginWithACall() {
    String call =
        "data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"function_call\",\"arguments\":\"\"}}\n\n";
    String message = call.replace("function_call", "message");
    String end =
        "data: {\"type\":\"response.incomplete\",\"response\":{\"id\":\"r\",\"error\":null,"
            + "\"usage\":{\"input_tokens\":4,\"output_tokens\":2}}}\n\n";
    Observation seen =
        watched(ApiKind.RESPONSES, BodyForm.EVENT_STREAM, (call + end).getBytes(UTF_8));
    assertThat(seen.firstTokenSeen()).isTrue();
    assertThat(seen.ending()).isEqualTo(Ending.COMPLETE);
    assertThat(seen.usage()).isEqualTo(usage(4, -1, 2));
    assertThat(
            watched(ApiKind.RESPONSES, BodyForm.EVENT_STREAM, (message + end).getBytes(UTF_8))
                .firstTokenSeen())
        .isFalse();
  }

  @Test
  void anthropicCachedTokensAreAddedToTheUncachedOnes() {
    String reportedAtTheStart =
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,"
            + "\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":5,\"output_tokens\":1}}}\n\n"
            + "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n"
            + "data: {\"type\":\"message_stop\"}\n\n";
    Observation seen =
        watched(ApiKind.MESSAGES, BodyForm.EVENT_STREAM, reportedAtTheStart.getBytes(UTF_8));
    assertThat(seen.usage()).isEqualTo(usage(35, 20, 7));
    assertThat(seen.ending()).isEqualTo(Ending.COMPLETE);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "MESSAGES | {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}",
        "RESPONSES | {\"type\":\"error\",\"code\":\"x\",\"message\":\"m\"}",
        "RESPONSES | {\"type\":\"response.failed\",\"response\":{\"id\":\"r\",\"error\":{\"code\":\"x\"}}}",
        "CHAT_COMPLETIONS | {\"error\":{\"message\":\"m\"}}",
        "CHAT_COMPLETIONS | {\"error\":\"m\"}",
        "COMPLETIONS | {\"object\":\"error\",\"message\":\"m\"}"
      })
  void errorsOfEveryApiAreSeenBeforeAndAfterTheFirstToken(ApiKind api, String event) {
    String stream = "data: " + event + "\n\ndata: [DONE]\n\n";
    assertThat(watched(api, BodyForm.EVENT_STREAM, stream.getBytes(UTF_8)).ending())
        .isEqualTo(Ending.ERROR);
    String afterText =
        switch (api) {
              case MESSAGES -> "data: {\"delta\":{\"text\":\"x\"}}\n\n";
              case RESPONSES -> "data: {\"delta\":\"x\"}\n\n";
              case CHAT_COMPLETIONS, COMPLETIONS, COUNT_TOKENS, OTHER -> TEXT;
            }
            + stream;
    Observation late = watched(api, BodyForm.EVENT_STREAM, afterText.getBytes(UTF_8));
    assertThat(late.ending()).isEqualTo(Ending.ERROR);
    assertThat(late.firstTokenSeen()).isTrue();
    if (api != ApiKind.RESPONSES) {
      assertThat(watched(api, BodyForm.JSON, event.getBytes(UTF_8)).ending())
          .isEqualTo(Ending.ERROR);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"\n", "\r\n", "\r"})
  void everyLineEndWorksForEveryCut(String lineEnd) {
    String stream = (": hi\n\n" + ROLE + TEXT + USAGE + "data: [DONE]\n\n").replace("\n", lineEnd);
    byte[] body = stream.getBytes(UTF_8);
    Observation expected = chatStream(stream);
    assertThat(expected.usage()).isEqualTo(usage(11, -1, 3));
    assertThat(expected.ending()).isEqualTo(Ending.COMPLETE);
    assertThat(expected.tokenEvents()).isEqualTo(1);
    for (int cut = 0; cut <= body.length; cut++) {
      ResponseWatcher watcher =
          new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
      watcher.feed(body, 0, cut);
      watcher.feed(body, cut, body.length - cut);
      assertThat(watcher.end()).isEqualTo(expected);
    }
  }

  @Test
  void dataOverSeveralLinesIsOneEvent() {
    String stream = "data: {\"choices\":[],\ndata:\"usage\":{\"prompt_tokens\":\ndata:  4}}\n\n";
    assertThat(chatStream(stream).usage()).isEqualTo(usage(4, -1, -1));
  }

  @Test
  void lastEventWithoutItsBlankLineStillCounts() {
    assertThat(chatStream(TEXT + USAGE.stripTrailing()).usage()).isEqualTo(usage(11, -1, 3));
    assertThat(chatStream(TEXT + "data: [DONE]").ending()).isEqualTo(Ending.COMPLETE);
  }

  @Test
  void nothingAfterTheEndIsRead() {
    assertThat(chatStream(TEXT + "data: [DONE]\n\n" + USAGE).usage())
        .isEqualTo(TokenUsage.NOT_REPORTED);
  }

  @Test
  void keysInsideTextAreNotFields() {
    String text =
        "data: {\"choices\":[{\"delta\":{\"content\":\"{\\\"usage\\\":{\\\"prompt_tokens\\\":9}}\"}}],"
            + "\"x\":{\"usage\":{\"prompt_tokens\":8},\"error\":{}},\"y\":[{\"error\":1}]}\n\n";
    Observation seen = chatStream(text);
    assertThat(seen.usage()).isEqualTo(TokenUsage.NOT_REPORTED);
    assertThat(seen.ending()).isEqualTo(Ending.CLOSED);
  }

  @Test
  void cachedBeyondThePromptIsNotBelieved() {
    String body =
        "{\"usage\":{\"prompt_tokens\":5,\"prompt_tokens_details\":{\"cached_tokens\":9}}}";
    assertThat(watched(ApiKind.CHAT_COMPLETIONS, BodyForm.JSON, body.getBytes(UTF_8)).usage())
        .isEqualTo(usage(5, -1, -1));
  }

  @Test
  void directBuffersAreReadAndLeftAsTheyAre() {
    byte[] body = (TEXT.repeat(200) + USAGE).getBytes(UTF_8);
    ByteBuffer direct = ByteBuffer.allocateDirect(body.length).put(body).flip();
    ResponseWatcher watcher = new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
    assertThat(watcher.feed(direct)).isTrue();
    assertThat(direct.position()).isZero();
    assertThat(watcher.end().usage()).isEqualTo(usage(11, -1, 3));
  }

  @Test
  void hugeLinesAndDeepNestingNeedNoMoreMemory() {
    ResponseWatcher watcher = new ResponseWatcher(ApiKind.CHAT_COMPLETIONS, BodyForm.EVENT_STREAM);
    byte[] start = "data: {\"x\":".getBytes(UTF_8);
    byte[] brackets = "[".repeat(100_000).getBytes(UTF_8);
    byte[] closing = "]".repeat(100_000).getBytes(UTF_8);
    byte[] end = ",\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3}}\n\n".getBytes(UTF_8);
    watcher.feed(start, 0, start.length);
    for (int i = 0; i < 20; i++) {
      watcher.feed(brackets, 0, brackets.length);
    }
    for (int i = 0; i < 20; i++) {
      watcher.feed(closing, 0, closing.length);
    }
    watcher.feed(end, 0, end.length);
    assertThat(watcher.end().usage()).isEqualTo(usage(11, -1, 3));
  }

  @Test
  void opaqueBodiesAreOnlyCounted() {
    Observation seen = watched(ApiKind.CHAT_COMPLETIONS, BodyForm.OPAQUE, USAGE.getBytes(UTF_8));
    assertThat(seen.bodyBytes()).isEqualTo(USAGE.length());
    assertThat(seen.usage()).isEqualTo(TokenUsage.NOT_REPORTED);
    assertThat(seen.ending()).isEqualTo(Ending.CLOSED);
  }

  @ParameterizedTest
  @CsvSource({
    "text/event-stream; charset=utf-8,, EVENT_STREAM",
    "Text/Event-Stream, identity, EVENT_STREAM",
    "application/json,, JSON",
    "application/json, gzip, OPAQUE",
    "text/html,, OPAQUE",
    ",, OPAQUE"
  })
  void formFollowsFromTheHeaders(String type, String encoding, BodyForm expected) {
    assertThat(BodyForm.of(type, encoding)).isEqualTo(expected);
  }

  @Test
  void randomBytesNeverThrowAndNeverReportNegativeCounts() {
    Random random = new Random(42);
    byte[] alphabet = "{}[]\":,\\ndata: usagechoicesdelta0123-.eE\n\r tf".getBytes(UTF_8);
    for (int round = 0; round < 2000; round++) {
      byte[] body = new byte[random.nextInt(400)];
      for (int i = 0; i < body.length; i++) {
        body[i] =
            random.nextInt(20) == 0
                ? (byte) random.nextInt()
                : alphabet[random.nextInt(alphabet.length)];
      }
      for (ApiKind api : ApiKind.values()) {
        for (BodyForm form : BodyForm.values()) {
          Observation seen = watched(api, form, body);
          seen.usage().promptTokens().ifPresent(n -> assertThat(n).isNotNegative());
        }
      }
    }
  }
}
