// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** A session recorded at a real vLLM 0.32 worker, as steps in order of time. */
final class RecordedSession {

  sealed interface Step {}

  /** A message of the PUB socket. */
  record Published(List<byte[]> frames) implements Step {}

  /** An answer of the replay socket. */
  record Replayed(String socket, List<byte[]> frames) implements Step {}

  /** A replay was asked for; the answers follow. */
  record ReplayAsked(String socket) implements Step {}

  /** A request with a prompt of token ids; {@code ids} is null for other prompts. */
  @SuppressWarnings("ArrayRecordComponent") // never compared
  record Asked(String id, int @Nullable [] ids, @Nullable String salt) implements Step {}

  /** Its answer; -1 when the worker did not say how many tokens were cached. */
  record Answered(String id, int cachedTokens) implements Step {}

  private RecordedSession() {}

  static List<Step> read(String name) {
    List<Step> steps = new ArrayList<>();
    for (Map<String, Object> line : TestJson.lines("sessions/" + name + ".jsonl")) {
      switch (TestJson.text(line.get("kind"))) {
        case "pub" -> steps.add(new Published(frames(line.get("frames"))));
        case "replay_request" -> steps.add(new ReplayAsked(TestJson.text(line.get("socket"))));
        case "replay_reply" ->
            steps.add(new Replayed(TestJson.text(line.get("socket")), frames(line.get("frames"))));
        case "request" -> steps.add(asked(line));
        case "response" -> steps.add(answered(line));
        default -> {}
      }
    }
    return steps;
  }

  private static Step asked(Map<String, Object> line) {
    String id = TestJson.text(line.get("id"));
    if (!(line.get("body") instanceof Map<?, ?> body)
        || !(body.get("prompt") instanceof List<?> prompt)
        || prompt.getFirst() instanceof List<?>) {
      return new Asked(id, null, null);
    }
    return new Asked(id, TestJson.ints(prompt), (String) body.get("cache_salt"));
  }

  private static Step answered(Map<String, Object> line) {
    int cached = -1;
    if (line.get("body") instanceof Map<?, ?> body
        && body.get("usage") instanceof Map<?, ?> usage
        && usage.get("prompt_tokens_details") instanceof Map<?, ?> details) {
      cached = TestJson.integer(details.get("cached_tokens"));
    }
    return new Answered(TestJson.text(line.get("id")), cached);
  }

  private static List<byte[]> frames(@Nullable Object base64) {
    return TestJson.asList(base64).stream()
        .map(frame -> Base64.getDecoder().decode((String) frame))
        .toList();
  }
}
