// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.TestFiles;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.JsonWriter;
import io.kvoy.inference.json.PythonJson;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Random requests through vLLM 0.32.0's own request models and conversion functions ({@code
 * AnthropicServingMessages}, {@code construct_input_messages}), recorded once: where vLLM accepts,
 * the conversation here is the same or openly unknown.
 */
class ConversionParityTest {
  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  private static Json read(String text) {
    return ((JsonRead.Document) READER.read(text.getBytes(UTF_8))).value();
  }

  @ParameterizedTest
  @EnumSource(names = {"MESSAGES", "RESPONSES"})
  void acceptedRequestsGiveTheSameConversation(ApiKind api) {
    Map<String, Integer> outcomes = new TreeMap<>();
    List<String> differences = new ArrayList<>();
    for (String line : TestFiles.lines("vectors/conversion/vllm-0.32.0.jsonl")) {
      Json.Obj row = (Json.Obj) read(line);
      if (!new Json.Str(api.path()).equals(row.get("endpoint"))) {
        continue;
      }
      byte[] body = JsonWriter.bytes(Objects.requireNonNull(row.get("request")));
      RequestParse parse = Dialects.parse(api, body);
      Json.Obj expected = (Json.Obj) Objects.requireNonNull(row.get("accepted"));
      assertThat(parse).as(line).isInstanceOf(RequestParse.Parsed.class);
      InferenceRequest request = ((RequestParse.Parsed) parse).request();
      switch (request.prompt()) {
        case Prompt.Chat chat -> {
          outcomes.merge("same", 1, Integer::sum);
          String seen = shown(api, chat);
          String wanted = wanted(expected);
          if (!seen.equals(wanted)) {
            differences.add(new String(body, UTF_8) + "\n   ours " + seen + "\n   vllm " + wanted);
          }
        }
        case Prompt.Unreadable(String reason, int _, Prompt.Chat _) ->
            outcomes.merge(reason, 1, Integer::sum);
        case Prompt.Texts _, Prompt.Tokens _ -> throw new AssertionError(request);
      }
    }
    assertThat(differences).isEmpty();
    assertThat(outcomes.get("same")).as("%s", outcomes).isGreaterThan(340);
  }

  private static String shown(ApiKind api, Prompt.Chat chat) {
    Map<String, Json> out = new TreeMap<>();
    out.put("messages", sorted(new Json.Arr(List.copyOf(chat.messages()))));
    out.put("tools", sorted(new Json.Arr(chat.tools())));
    String effort = chat.options().reasoningEffort();
    out.put("effort", effort == null ? Json.Null.NULL : new Json.Str(effort));
    if (api == ApiKind.RESPONSES) {
      out.put(
          "continue_final",
          new Json.Bool(Boolean.TRUE.equals(chat.options().continueFinalMessage())));
    } else {
      Json choice = chat.options().toolChoice();
      out.put("tool_choice", choice == null ? Json.Null.NULL : choice);
    }
    return PythonJson.dumps(sorted(Json.Obj.of(out)));
  }

  private static String wanted(Json.Obj expected) {
    Map<String, Json> out = new TreeMap<>(expected.fields());
    out.remove("max");
    out.computeIfPresent("messages", (_, messages) -> withoutType((Json.Arr) messages));
    if (out.get("tools") == Json.Null.NULL) {
      out.put("tools", new Json.Arr(List.of()));
    }
    return PythonJson.dumps(sorted(Json.Obj.of(out)));
  }

  /** A response item's own {@code type} stays on its message; the chat normalisation drops it. */
  private static Json withoutType(Json.Arr messages) {
    List<Json> out = new ArrayList<>();
    for (Json message : messages.items()) {
      Map<String, Json> fields = new TreeMap<>(((Json.Obj) message).fields());
      fields.remove("type");
      out.add(Json.Obj.of(fields));
    }
    return new Json.Arr(out);
  }

  /**
   * Key order is the next stage's business: vLLM's chat model reorders tool calls, see {@code
   * ChatOptions.source}.
   */
  private static Json sorted(Json value) {
    return switch (value) {
      case Json.Obj(var fields) -> {
        Map<String, Json> ordered = new TreeMap<>();
        fields.forEach((key, inner) -> ordered.put(key, sorted(inner)));
        yield Json.Obj.of(ordered);
      }
      case Json.Arr(List<Json> items) ->
          new Json.Arr(items.stream().map(ConversionParityTest::sorted).toList());
      case Json.Str _, Json.Int _, Json.BigInt _, Json.Real _, Json.Bool _, Json.Null _ -> value;
    };
  }
}
