// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.msgpack.value.ArrayValue;
import org.msgpack.value.MapValue;
import org.msgpack.value.Value;
import org.msgpack.value.ValueFactory;

/**
 * The engine, given the requests of a recorded session as token ids, must do what the real worker
 * did.
 */
class SimEngineRecordedSessionTest {
  private static final EngineRequest.Lora LORA = new EngineRequest.Lora(1, "lora-a", "m/lora-a");
  private static final int NEWLINE = 198;

  /** Token ids that the recorded events reveal: prompts of the chat requests by recorded name. */
  private static Map<String, int[]> chatPrompts(String session) {
    List<int[]> bySeq = new ArrayList<>();
    for (Json.Obj line : Recording.lines(session, "pub")) {
      int[] ids = {};
      for (Value event : events(Recording.frames(line).get(2))) {
        Value tokens = event.asMapValue().map().get(ValueFactory.newString("token_ids"));
        if (tokens != null) {
          ids =
              tokens.asArrayValue().list().stream()
                  .mapToInt(v -> v.asIntegerValue().asInt())
                  .toArray();
        }
      }
      bySeq.add(ids);
    }
    Map<String, int[]> prompts = new HashMap<>();
    int[] shared = bySeq.get(0);
    prompts.put("c1", join(shared, Arrays.copyOf(bySeq.get(1), 31)));
    if (session.startsWith("session-b")) {
      prompts.put("c3", join(shared, bySeq.get(2), Arrays.copyOf(bySeq.get(3), 11)));
    } else {
      prompts.put("c3", join(shared, bySeq.get(3), Arrays.copyOf(bySeq.get(4), 11)));
      prompts.put("c6-session", join(shared, Arrays.copyOf(bySeq.get(9), 31)));
      prompts.put("m1", join(shared, Arrays.copyOf(bySeq.get(18), 31)));
      for (String same :
          List.of(
              "c2",
              "c4-salt",
              "c5-lora",
              "c6b-full-report",
              "c7-after-evict",
              "c8-after-reset",
              "c9-again")) {
        prompts.put(same, Objects.requireNonNull(prompts.get("c1")));
      }
    }
    return prompts;
  }

  /** What the model answered, where events show it; anything else where they do not. */
  private static int answerOf(String id) {
    return switch (id) {
      case "c5-lora" -> 109_235;
      case "m1" -> 34_108;
      case "p4-ids" -> 2063;
      default -> NEWLINE;
    };
  }

  @ParameterizedTest
  @CsvSource({"session-a.jsonl", "session-b-after-restart.jsonl"})
  void publishesTheSameBytesAsTheRealWorkerButForTheTime(String session) {
    Map<String, int[]> chat = chatPrompts(session);
    Answers answers = new Answers();
    EngineOptions options = EngineOptions.DEFAULTS.withCache(65, 32, 2048).withHashSeed("0");
    EngineMetrics metrics = new EngineMetrics("tiny-qwen3", 0, options, 1, () -> 0.0);
    SimEngine engine = new SimEngine(options, answers, metrics, 1);
    KvEventEncoder encoder = new KvEventEncoder(EventOptions.Format.MAP, true);
    List<byte[]> published = new ArrayList<>();
    Map<String, Integer> cached = new HashMap<>();
    Map<String, Integer> created = new HashMap<>();

    for (Json.Obj line : Recording.lines(session, "request")) {
      String id = Recording.string(line, "id");
      if (id.equals("reset")) {
        assertThat(engine.resetPrefixCache()).isTrue();
        continue;
      }
      answers.token = answerOf(id);
      Json.Obj body = Recording.object(line, "body");
      List<int[]> prompts = prompts(id, body, chat);
      for (int i = 0; i < prompts.size(); i++) {
        engine.add(request(id + "#" + i, id, line, body, prompts.get(i), cached, created), 0);
        if (prompts.size() > 1) {
          // The real worker had begun with the first prompt when the next one came.
          step(engine, published, encoder);
        }
      }
      while (engine.hasWork()) {
        step(engine, published, encoder);
      }
    }

    List<Json.Obj> recorded = Recording.lines(session, "pub");
    for (int i = 0; i < Math.min(recorded.size(), published.size()); i++) {
      byte[] expected = Recording.frames(recorded.get(i)).get(2);
      assertThat(withoutTime(published.get(i)))
          .as("seq %d: ours %s, real %s", i, unpacked(published.get(i)), unpacked(expected))
          .isEqualTo(withoutTime(expected));
    }
    assertThat(published).hasSameSizeAs(recorded);
    for (Json.Obj line : Recording.lines(session, "response")) {
      String id = Recording.string(line, "id");
      if (!id.equals("reset")) {
        Json.Obj usage = Recording.object(line, "body", "usage");
        assertThat(cached.get(id)).as("cached tokens of %s", id).isEqualTo(cachedTokens(usage));
        Integer createdTokens = createdTokens(usage);
        if (createdTokens != null) {
          assertThat(created.get(id)).as("created tokens of %s", id).isEqualTo(createdTokens);
        }
      }
    }
  }

  /**
   * Bytes mode, other hash algorithm and seed: hashes are only names, so the blocks are numbered as
   * they appear.
   */
  @Test
  void evictsTheSameBlocksInTheSameOrderAsTheLlamaWorker() {
    String session = "session-c-llama-bytes-connect.jsonl";
    Answers answers = new Answers();
    EngineOptions options = EngineOptions.DEFAULTS.withCache(39, 128, 2048);
    EngineMetrics metrics = new EngineMetrics("tiny-llama", 0, options, 0, () -> 0.0);
    SimEngine engine = new SimEngine(options, answers, metrics, 1);
    KvEventEncoder encoder = new KvEventEncoder(EventOptions.Format.MAP, false);
    List<byte[]> published = new ArrayList<>();
    List<Json.Obj> recorded = Recording.lines(session, "pub");
    int[] shared = tokens(events(Recording.frames(recorded.get(0)).get(2)).getFirst());
    int[] bonjour = tokens(events(Recording.frames(recorded.get(2)).get(2)).getFirst());
    for (Json.Obj line : Recording.lines(session, "request")) {
      String id = Recording.string(line, "id");
      Json.Obj body = Recording.object(line, "body");
      int[] prompt =
          switch (id) {
            case "l1" -> join(shared, IntStream.range(0, 49).toArray());
            case "l2" -> join(shared, IntStream.range(100, 152).toArray());
            case "l4" -> join(bonjour, IntStream.range(0, 17).toArray());
            default -> Recording.ints(Objects.requireNonNull(body.get("prompt")));
          };
      engine.add(request(id, id, line, body, prompt, new HashMap<>(), new HashMap<>()), 0);
      while (engine.hasWork()) {
        step(engine, published, encoder);
      }
    }
    Map<String, Integer> ours = new HashMap<>();
    Map<String, Integer> theirs = new HashMap<>();
    for (int i = 0; i < recorded.size(); i++) {
      assertThat(shape(published.get(i), ours))
          .as("seq %d", i)
          .isEqualTo(shape(Recording.frames(recorded.get(i)).get(2), theirs));
    }
    assertThat(published).hasSameSizeAs(recorded);
  }

  /**
   * The events with each digest replaced by the order of its first appearance; keys stay in wire
   * order.
   */
  private static List<String> shape(byte[] payload, Map<String, Integer> names) {
    List<String> shape = new ArrayList<>();
    for (Value event : events(payload)) {
      StringBuilder text = new StringBuilder();
      MapValue map = event.asMapValue();
      Value[] pairs = map.getKeyValueArray();
      for (int i = 0; i < pairs.length; i += 2) {
        text.append(pairs[i]).append('=').append(renamed(pairs[i + 1], names)).append(' ');
      }
      shape.add(text.toString());
    }
    return shape;
  }

  private static String renamed(Value value, Map<String, Integer> names) {
    if (value.isBinaryValue()) {
      byte[] bytes = value.asBinaryValue().asByteArray();
      return bytes.length
          + "-byte#"
          + names.computeIfAbsent(HexFormat.of().formatHex(bytes), _ -> names.size());
    }
    if (value.isArrayValue()) {
      return value.asArrayValue().list().stream().map(v -> renamed(v, names)).toList().toString();
    }
    return value.toString();
  }

  private static List<int[]> prompts(String id, Json.Obj body, Map<String, int[]> chat) {
    int[] known = chat.get(id);
    if (known != null) {
      return List.of(known);
    }
    Json prompt = Objects.requireNonNull(body.get("prompt"));
    if (prompt instanceof Json.Str) {
      // "too short for a block": five tokens that no event shows.
      return List.of(new int[] {1, 2, 3, 4, 5});
    }
    List<Json> items = ((Json.Arr) prompt).items();
    return items.getFirst() instanceof Json.Arr
        ? items.stream().map(Recording::ints).toList()
        : List.of(Recording.ints(prompt));
  }

  private static EngineRequest request(
      String engineId,
      String id,
      Json.Obj line,
      Json.Obj body,
      int[] prompt,
      Map<String, Integer> cached,
      Map<String, Integer> created) {
    String salt = Recording.string(body, "cache_salt");
    String session = Recording.string(Recording.object(line, "headers"), "x-session-id");
    boolean[] first = {true};
    return new EngineRequest(
        engineId,
        prompt,
        Recording.string(body, "model").equals("lora-a") ? LORA : null,
        salt.isEmpty() ? null : salt,
        session.isEmpty() ? null : session,
        body.get("vllm_xargs") != null,
        Recording.number(body, "max_tokens"),
        0,
        true,
        0,
        output -> {
          if (first[0] && output instanceof EngineOutput.Token token) {
            first[0] = false;
            cached.merge(id, token.cachedTokens(), Integer::sum);
            created.merge(id, token.createdCacheTokens(), Integer::sum);
          }
        });
  }

  private static void step(SimEngine engine, List<byte[]> published, KvEventEncoder encoder) {
    engine.complete(engine.schedule(0), 0, events -> published.add(encoder.batch(0, events, 0)));
  }

  private static int cachedTokens(Json.Obj usage) {
    return usage.get("cache_read_input_tokens") != null
        ? Recording.number(usage, "cache_read_input_tokens")
        : Recording.number(Recording.object(usage, "prompt_tokens_details"), "cached_tokens");
  }

  private static @Nullable Integer createdTokens(Json.Obj usage) {
    if (usage.get("cache_creation_input_tokens") != null) {
      return Recording.number(usage, "cache_creation_input_tokens");
    }
    Json created = Recording.object(usage, "prompt_tokens_details").get("created_cache_tokens");
    return created instanceof Json.Int(long value) ? (int) value : null;
  }

  private static List<Value> events(byte[] payload) {
    return Recording.unpack(payload).asArrayValue().get(1).asArrayValue().list();
  }

  private static int[] tokens(Value event) {
    ArrayValue ids =
        Objects.requireNonNull(event.asMapValue().map().get(ValueFactory.newString("token_ids")))
            .asArrayValue();
    return ids.list().stream().mapToInt(v -> v.asIntegerValue().asInt()).toArray();
  }

  private static String unpacked(byte[] payload) {
    String text = Recording.unpack(payload).toString();
    return text.length() > 2000 ? text.substring(0, 2000) : text;
  }

  /** The payload less the eight bytes of its timestamp. */
  private static byte[] withoutTime(byte[] payload) {
    byte[] copy = payload.clone();
    Arrays.fill(copy, 2, 10, (byte) 0);
    return copy;
  }

  private static int[] join(int[]... parts) {
    return Arrays.stream(parts).flatMapToInt(Arrays::stream).toArray();
  }

  /** Answers every request with one token over and over. */
  private static final class Answers implements TokenSource {
    private int token;

    @Override
    public int next(long promptSeed, int index, boolean mayEnd) {
      return token;
    }

    @Override
    public boolean isEnd(int tokenId) {
      return false;
    }
  }
}
