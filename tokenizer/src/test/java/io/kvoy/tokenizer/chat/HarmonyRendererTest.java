// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.chat.HarmonyResult.Segment;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * gpt-oss prompts against vLLM 0.32: its vectors, and {@code tools/chat-templates/harmony.py} for
 * odd requests.
 */
class HarmonyRendererTest {
  private static final HarmonyRenderer RENDERER =
      new HarmonyRenderer(
          false, Clock.fixed(Instant.parse("2026-11-30T12:00:00Z"), ZoneOffset.UTC));

  static Stream<Named<Json.Obj>> vectors() {
    return TestData.jsonLines("vectors/chat-template/gptoss.jsonl").stream()
        .filter(vector -> TestData.string(vector, "endpoint").equals("/v1/chat/completions"))
        .map(vector -> Named.of(TestData.string(vector, "id"), vector));
  }

  static Stream<Named<Json.Obj>> goldens() {
    return TestData.jsonLines("goldens/harmony.jsonl").stream()
        .map(golden -> Named.of(TestData.string(golden, "id"), golden));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("vectors")
  void rendersTheRequestToTheWorkersText(Json.Obj vector) {
    HarmonyResult result =
        RENDERER.render(TestData.chat((Json.Obj) TestData.field(vector, "request")));

    assertThat(result).isInstanceOf(HarmonyResult.Rendered.class);
    assertThat(((HarmonyResult.Rendered) result).text()).isEqualTo(TestData.string(vector, "text"));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("goldens")
  void cutsThePromptAtTheWorkersMarkers(Json.Obj golden) {
    HarmonyResult result =
        RENDERER.render(TestData.chat((Json.Obj) TestData.field(golden, "request")));

    assertThat(result).isInstanceOf(HarmonyResult.Rendered.class);
    assertThat(lines(joined(((HarmonyResult.Rendered) result).segments())))
        .isEqualTo(lines(expected(golden)));
  }

  @Test
  void keepsTheTextsOfPartsApart() {
    HarmonyResult result =
        RENDERER.render(
            TestData.chat(
                TestData.object(
                    """
                    {"messages":[{"role":"user","content":[
                      {"type":"text","text":"Sure?"},{"type":"text","text":"Really?"}]}]}
                    """)));

    assertThat(((HarmonyResult.Rendered) result).segments())
        .containsSequence(new Segment.Text("Sure?"), new Segment.Text("Really?"));
  }

  @Test
  void refusesEffortsThatHarmonyHasNoWordFor() {
    HarmonyResult result =
        RENDERER.render(
            TestData.chat(
                TestData.object(
                    """
                    {"reasoning_effort":"minimal","messages":[{"role":"user","content":"x"}]}
                    """)));

    assertThat(result)
        .isEqualTo(
            new HarmonyResult.Refused(
                "reasoning_effort='minimal' is not supported by Harmony. Supported values are: "
                    + "high, medium, low."));
  }

  @Test
  void leavesToolsOutWhenToldToAndNotToBeChosen() {
    HarmonyRenderer excluding = new HarmonyRenderer(true, Clock.systemUTC());

    HarmonyResult result =
        excluding.render(
            TestData.chat(
                TestData.object(
                    """
                    {"tool_choice":"none","tools":[{"type":"function","function":{"name":"f"}}],
                     "messages":[{"role":"user","content":"x"}]}
                    """)));

    assertThat(((HarmonyResult.Rendered) result).text()).doesNotContain("functions");
  }

  private static List<Segment> expected(Json.Obj golden) {
    List<Segment> segments = new ArrayList<>();
    for (Json item : ((Json.Arr) TestData.field(golden, "segments")).items()) {
      Json.Obj segment = (Json.Obj) item;
      segments.add(
          TestData.has(segment, "marker")
              ? new Segment.Marker(TestData.string(segment, "marker"))
              : new Segment.Text(TestData.string(segment, "text")));
    }
    return segments;
  }

  /** The goldens know markers only, not where two texts met. */
  private static List<Segment> joined(List<Segment> segments) {
    List<Segment> joined = new ArrayList<>();
    for (Segment segment : segments) {
      if (segment instanceof Segment.Text(String text)
          && !joined.isEmpty()
          && joined.getLast() instanceof Segment.Text(String before)) {
        joined.set(joined.size() - 1, new Segment.Text(before + text));
      } else {
        joined.add(segment);
      }
    }
    return joined;
  }

  private static String lines(List<Segment> segments) {
    StringBuilder lines = new StringBuilder();
    for (Segment segment : segments) {
      lines.append(
          switch (segment) {
            case Segment.Marker(String token) -> "== " + token + "\n";
            case Segment.Text(String text) -> text + "\n";
          });
    }
    return lines.toString();
  }
}
