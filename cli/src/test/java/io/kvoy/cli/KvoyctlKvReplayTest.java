// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class KvoyctlKvReplayTest {

  /** A line and, for a query, how many cached tokens vLLM reported for that request. */
  private record Step(String line, @Nullable String request, long reported) {}

  @Test
  void cachedTokensOfConversationsSaltsAndAdaptersEqualThoseThatVllmReported() {
    List<Json.Obj> session = Vectors.lines("session-a.jsonl");
    Map<String, Json> ids = idsOfChats(session);

    // c2 was sent before the events of c1 were out. c7 finds its prefix evicted, but c6b had the
    // worker announce that prefix again (kv_cache_report_mode), which no removal takes back. The
    // worker tells of the reset before c8 only together with what c8 stores.
    List<String> left = List.of("c2", "c7-after-evict", "c8-after-reset");
    int compared = assertPredicted(steps(session, ids, left));

    assertThat(compared).isEqualTo(15);
  }

  @Test
  void cachedTokensOfAHybridModelEqualThoseThatVllmReported() {
    List<Json.Obj> session = Vectors.lines("session-d-hybrid-gemma3.jsonl");

    // g13 follows a reset.
    int compared = assertPredicted(steps(session, Map.of(), List.of("g13")));

    assertThat(compared).isEqualTo(11);
  }

  /** Token ids of the chat requests, as {@code kvoyctl tokenize} has them. */
  private static Map<String, Json> idsOfChats(List<Json.Obj> session) {
    List<String> names = new ArrayList<>();
    List<String> bodies = new ArrayList<>();
    for (Json.Obj line : session) {
      if (Vectors.text(line, "kind").equals("request")
          && Vectors.text(line, "path").equals("/v1/chat/completions")) {
        names.add(Vectors.text(line, "id"));
        bodies.add(Vectors.compact(Vectors.field(line, "body")));
      }
    }
    Ran ran =
        Ran.withInput(
            bodies,
            "tokenize",
            "--tokenizer",
            Vectors.tokenizer("qwen3"),
            "--endpoint",
            "/v1/chat/completions");
    Map<String, Json> ids = new LinkedHashMap<>();
    for (int i = 0; i < names.size(); i++) {
      ids.put(names.get(i), Vectors.field(ran.answers().get(i), "ids"));
    }
    return ids;
  }

  private static List<Step> steps(
      List<Json.Obj> session, Map<String, Json> idsOfChats, List<String> left) {
    Map<String, Long> reported = new LinkedHashMap<>();
    for (Json.Obj line : session) {
      if (Vectors.text(line, "kind").equals("response")
          && line.get("body") instanceof Json.Obj body
          && body.get("usage") instanceof Json.Obj usage
          && usage.get("prompt_tokens_details") instanceof Json.Obj details) {
        reported.put(Vectors.text(line, "id"), Vectors.number(details, "cached_tokens"));
      }
    }
    List<Step> steps = new ArrayList<>();
    for (Json.Obj line : session) {
      switch (Vectors.text(line, "kind")) {
        case "pub" -> steps.add(new Step(Vectors.compact(line), null, 0));
        case "request" -> {
          String id = Vectors.text(line, "id");
          Long tokens = reported.get(id);
          if (tokens != null && !left.contains(id) && line.get("body") instanceof Json.Obj body) {
            Json ids = ids(body, idsOfChats.get(id));
            if (ids != null) {
              steps.add(new Step(query(ids, body), id, tokens));
            }
          }
        }
        default -> {}
      }
    }
    return steps;
  }

  private static @Nullable Json ids(Json.Obj body, @Nullable Json ofChat) {
    boolean isPromptOfIds =
        body.get("prompt") instanceof Json.Arr(List<Json> items)
            && items.getFirst() instanceof Json.Int;
    return isPromptOfIds ? body.get("prompt") : ofChat;
  }

  private static String query(Json ids, Json.Obj body) {
    SequencedMap<String, Json> query = new LinkedHashMap<>();
    query.put("token_ids", ids);
    Json salt = body.get("cache_salt");
    query.put("cache_salt", salt == null ? Json.Null.NULL : salt);
    boolean isAdapter = Vectors.text(body, "model").startsWith("lora");
    query.put("lora", isAdapter ? Vectors.field(body, "model") : Json.Null.NULL);
    return Vectors.compact(Json.Obj.of(Map.of("query", new Json.Obj(query))));
  }

  private static int assertPredicted(List<Step> steps) {
    Ran ran = Ran.withInput(steps.stream().map(Step::line).toList(), "kv-replay");
    assertThat(ran.status()).isZero();
    List<Json.Obj> answers = ran.answers();
    assertThat(answers).hasSameSizeAs(steps);
    int compared = 0;
    boolean wasHeard = false;
    for (int i = 0; i < answers.size(); i++) {
      Step step = steps.get(i);
      Json.Obj answer = answers.get(i);
      if (step.request() == null) {
        wasHeard = true;
        assertThat(answer.fields().keySet()).containsExactly("state", "blocks", "references");
      } else {
        compared++;
        assertThat(Vectors.number(answer, "cached_tokens"))
            .as(step.request())
            .isEqualTo(step.reported());
      }
      assertThat(Vectors.text(answer, "state")).isEqualTo(wasHeard ? "live" : "syncing");
      assertThat(Vectors.number(answer, "references"))
          .isGreaterThanOrEqualTo(Vectors.number(answer, "blocks"));
    }
    return compared;
  }

  @Test
  void joiningLateIsPartialAndAGapEmptiesTheView() {
    List<String> messages =
        Vectors.lines("session-a.jsonl").stream()
            .filter(line -> Vectors.text(line, "kind").equals("pub"))
            .map(Vectors::compact)
            .toList();

    List<Json.Obj> late = Ran.withInput(messages.subList(1, 3), "kv-replay").answers();
    assertThat(late)
        .allSatisfy(answer -> assertThat(Vectors.text(answer, "state")).isEqualTo("partial"));

    List<Json.Obj> gap =
        Ran.withInput(List.of(messages.get(0), messages.get(2)), "kv-replay").answers();
    assertThat(gap.get(0)).isEqualTo(Vectors.object(state("live", 4, 4)));
    assertThat(gap.get(1))
        .as("the block of the message after the gap, whose parent is forgotten, has no place")
        .isEqualTo(Vectors.object(state("partial", 0, 0)));
  }

  private static String state(String state, int blocks, int references) {
    return "{\"state\":\"%s\",\"blocks\":%d,\"references\":%d}"
        .formatted(state, blocks, references);
  }

  @Test
  void sameMessageTwiceCountsOnce() {
    String first =
        Vectors.lines("session-a.jsonl").stream()
            .filter(line -> Vectors.text(line, "kind").equals("pub"))
            .map(Vectors::compact)
            .findFirst()
            .orElseThrow();

    List<Json.Obj> answers = Ran.withInput(List.of(first, first), "kv-replay").answers();

    assertThat(answers.get(1)).isEqualTo(answers.get(0));
  }

  @Test
  void KVE_09_messageThatMakesNoSenseIsMarkedAndTheNextGoodOneIsApplied() {
    List<String> lines =
        Vectors.lines("kve-malformed.jsonl").stream().map(KvoyctlKvReplayTest::base64).toList();

    Ran ran = Ran.withInput(lines, "kv-replay");

    assertThat(ran.status()).isZero();
    List<Json.Obj> answers = ran.answers();
    List<Json.Obj> bad = answers.subList(0, answers.size() - 1);
    assertThat(bad).allSatisfy(answer -> assertThat(answer.fields()).containsKey("malformed"));
    assertThat(answers.getLast().fields()).doesNotContainKey("malformed");
    assertThat(Vectors.number(answers.getLast(), "blocks")).isOne();
  }

  private static String base64(Json.Obj line) {
    List<Json> frames = new ArrayList<>();
    for (Json frame : ((Json.Arr) Vectors.field(line, "frames_hex")).items()) {
      byte[] bytes = HexFormat.of().parseHex(String.valueOf(frame.asString()));
      frames.add(new Json.Str(Base64.getEncoder().encodeToString(bytes)));
    }
    return Vectors.compact(Json.Obj.of(Map.of("frames", new Json.Arr(frames))));
  }

  @Test
  void lineThatIsNeitherMessageNorQueryIsAnError() {
    Ran ran =
        Ran.withInput(
            List.of(
                "{}",
                "{\"frames\":[\"*\"]}",
                "{\"frames\":[1]}",
                "{\"query\":{}}",
                "{\"query\":{\"token_ids\":[1],\"lora\":7}}",
                "{\"query\":{\"token_ids\":[1],\"lora\":{\"name\":\"a\"}}}"),
            "kv-replay");

    assertThat(ran.status()).isEqualTo(1);
    assertThat(ran.answers().stream().map(answer -> String.valueOf(answer.get("error"))))
        .containsExactly(
            "Str[value=either frames or query is required]",
            "Str[value=field frames[0] must be base64]",
            "Str[value=field frames[0] must be a string]",
            "Str[value=field token_ids is required]",
            "Str[value=field lora must be a string]",
            "null");
  }
}
