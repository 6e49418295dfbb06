// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonRead.Document;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BodyMemoryTest {
  private static final JsonReader PLAIN = new JsonReader(JsonLimits.DEFAULTS);

  private final BodyMemory memory = new BodyMemory(64 << 20);
  private final JsonReader reader = new JsonReader(JsonLimits.DEFAULTS, memory);

  private static String message(String text) {
    return "{\"role\": \"user\", \"content\": \"" + text + "\"}";
  }

  private static byte[] body(List<String> messages, String rest) {
    return ("{\"model\": \"m\", \"messages\": [" + String.join(", ", messages) + "]" + rest + "}")
        .getBytes(UTF_8);
  }

  private static List<Json> messages(JsonRead read) {
    Json.Obj root = (Json.Obj) ((Document) read).value();
    return ((Json.Arr) Objects.requireNonNull(root.fields().get("messages"))).items();
  }

  @Test
  void nextTurnHasTheSameMessagesAndNewOnesBehindThem() {
    List<String> sent = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      sent.add(message("turn " + i + " " + "x".repeat(500)));
    }
    List<Json> before = messages(reader.read(body(sent, ", \"stream\": true")));
    sent.add(message("answer"));
    sent.add(message("next"));
    byte[] next = body(sent, "");

    List<Json> after = messages(reader.read(next));

    assertThat(after).isEqualTo(messages(PLAIN.read(next)));
    for (int i = 0; i < 20; i++) {
      assertThat(after.get(i)).isSameAs(before.get(i));
    }
  }

  /** Many users of an application whose instructions are longer than what they have said. */
  @Test
  void conversationsWithTheSameLongInstructionsAreAllRemembered() {
    List<List<String>> conversations = new ArrayList<>();
    List<List<Json>> before = new ArrayList<>();
    for (int user = 0; user < 20; user++) {
      List<String> sent = new ArrayList<>(List.of(message("s".repeat(33_000))));
      for (int turn = 0; turn < 8; turn++) {
        sent.add(message(("user " + user + " turn " + turn + ". ").repeat(70)));
      }
      conversations.add(sent);
      before.add(messages(reader.read(body(sent, ""))));
    }
    for (int user = 0; user < 20; user++) {
      List<String> sent = conversations.get(user);
      sent.add(message("more"));
      assertThat(messages(reader.read(body(sent, ""))).get(8)).isSameAs(before.get(user).get(8));
    }
  }

  /** The last number of one array is the beginning of another one's. */
  @Test
  void numberThatGoesOnIsAnotherNumber() {
    String ids = "1, ".repeat(3_000);
    reader.read(("{\"prompt\": [" + ids + "12]}").getBytes(UTF_8));
    for (String rest : List.of("12]}", "123]}", "12.5]}", "12, 3]}", "12e3]}")) {
      byte[] next = ("{\"prompt\": [" + ids + rest).getBytes(UTF_8);
      assertThat(reader.read(next)).isEqualTo(PLAIN.read(next));
    }
  }

  /** Whatever changes, appears, goes or breaks, and wherever. */
  @Test
  void documentMeansTheSameWithAndWithoutMemory() {
    Random random = new Random(1);
    int found = 0;
    byte[] body = {};
    for (int round = 0; round < 5_000; round++) {
      if (body.length < 5_000 || body.length > 60_000 || random.nextInt(20) == 0) {
        List<String> messages = new ArrayList<>();
        for (int i = random.nextInt(5, 40); i > 0; i--) {
          messages.add(
              random.nextBoolean()
                  ? RandomJson.objectText(random)
                  : message("é".repeat(random.nextInt(800))));
        }
        body = body(messages, random.nextBoolean() ? "" : ", \"stop\": [[1, 2], \"x\", 3]");
      } else {
        body = changed(body, random);
      }
      found += memory.find(body) == null ? 0 : 1;
      assertThat(reader.read(body)).isEqualTo(PLAIN.read(body));
    }
    assertThat(found).isGreaterThan(1_000);
  }

  private static byte[] changed(byte[] body, Random random) {
    int at = random.nextInt(4) == 0 ? random.nextInt(body.length) : body.length - 2;
    byte[] piece =
        switch (random.nextInt(6)) {
          case 0 -> new byte[] {(byte) random.nextInt(256)};
          case 1 -> ", {\"role\": \"tool\", \"content\": \"\\ud800\"}".getBytes(UTF_8);
          case 2 -> new byte[] {(byte) 0xED, (byte) 0xA0, (byte) 0x80};
          case 3 -> (", " + RandomJson.objectText(random)).getBytes(UTF_8);
          default -> (", " + message("more ".repeat(random.nextInt(200)))).getBytes(UTF_8);
        };
    // Right in front of the array's end, if there is none behind it.
    int gone = random.nextInt(10) == 0 ? Math.min(random.nextInt(100), body.length - at) : 0;
    byte[] changed = new byte[body.length + piece.length - gone];
    System.arraycopy(body, 0, changed, 0, at);
    System.arraycopy(piece, 0, changed, at, piece.length);
    System.arraycopy(body, at + gone, changed, at + piece.length, body.length - at - gone);
    return changed;
  }

  @Test
  void olderDocumentsGoWhenThereIsNoRoom() {
    BodyMemory small = new BodyMemory(400_000);
    JsonReader smallReader = new JsonReader(JsonLimits.DEFAULTS, small);
    List<byte[]> bodies = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      bodies.add(body(List.of(message(i + "x".repeat(3_000)), message("y".repeat(2_000))), ""));
    }
    byte[] used = body(List.of(message("used".repeat(1_000)), message("z".repeat(2_000))), "");
    smallReader.read(used);
    for (byte[] body : bodies) {
      smallReader.read(body);
      assertThat(small.find(used)).as("used all the time").isNotNull();
    }

    assertThat(small.find(bodies.getFirst())).isNull();
    assertThat(small.find(bodies.getLast())).isNotNull();
  }

  @Test
  void nothingIsRememberedWithoutRoom() {
    BodyMemory none = new BodyMemory(0);
    byte[] body = body(List.of(message("x".repeat(5_000))), "");
    new JsonReader(JsonLimits.DEFAULTS, none).read(body);

    assertThat(none.find(body)).isNull();
  }
}
