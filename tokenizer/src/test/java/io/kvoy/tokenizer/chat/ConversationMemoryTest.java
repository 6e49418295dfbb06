// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.chat.ConversationMemory.Form;
import io.kvoy.tokenizer.chat.ConversationMemory.Turn;
import io.kvoy.tokenizer.encode.EncodedTexts;
import io.kvoy.tokenizer.jinja.KnownItem;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.SplittableRandom;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class ConversationMemoryTest {
  private static final Form FORM = new Form(ContentFormat.STRING, false);

  private final AtomicLong ticks = new AtomicLong();
  private final ConversationMemory memory = new ConversationMemory(1 << 20, ticks::incrementAndGet);

  private static Json.Obj message(String role, String content) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    fields.put("role", new Json.Str(role));
    fields.put("content", new Json.Str(content));
    return new Json.Obj(fields);
  }

  private static List<Json.Obj> conversation(String... contents) {
    List<Json.Obj> messages = new ArrayList<>();
    for (String content : contents) {
      messages.add(message(messages.size() % 2 == 0 ? "user" : "assistant", content));
    }
    return messages;
  }

  private Turn turn(List<Json.Obj> messages) throws Exception {
    Turn turn = memory.recall(messages, FORM);
    memory.keep(turn, EncodedTexts.of(messages.size()));
    return turn;
  }

  @Test
  void theNextTurnHasTheItemsOfTheTurnBefore() throws Exception {
    Turn first = turn(conversation("a", "b", "c"));
    Turn second = memory.recall(conversation("a", "b", "c", "d", "e"), FORM);

    assertThat(second.items()).hasSize(5);
    assertThat(second.items().subList(0, 3)).containsExactlyElementsOf(first.items());
    assertThat(second.before()).isNotNull();
  }

  @Test
  void aConversationThatWentOnTakesOnePlace() throws Exception {
    turn(conversation("a", "b", "c"));
    long one = memory.bytes();
    turn(conversation("a", "b", "c", "d", "e"));
    assertThat(memory.bytes()).isGreaterThan(one).isLessThan(2 * one);
    turn(conversation("a", "b", "other"));
    assertThat(memory.bytes()).isGreaterThan(2 * one);
  }

  @Test
  void theBranchWithMostMessagesIsFound() throws Exception {
    turn(conversation("a", "b", "c"));
    Turn other = turn(conversation("a", "x", "c", "d", "e"));
    Turn next = memory.recall(conversation("a", "x", "c", "y"), FORM);

    assertThat(jsons(next).subList(0, 3)).containsExactlyElementsOf(jsons(other).subList(0, 3));
  }

  private static List<Json.Obj> jsons(Turn turn) {
    return turn.items().stream().map(KnownItem::json).toList();
  }

  /**
   * Stretches of an item keep the items behind it. A conversation that has only the first of them
   * must not keep the others when theirs is forgotten.
   */
  @Test
  void conversationThatGoesAnotherWayHasItemsOfItsOwnThatLeadStretches() throws Exception {
    String[] contents = new String[80];
    Arrays.setAll(contents, i -> "message " + i);
    Turn whole = turn(conversation(contents));
    Turn longer = turn(conversation(append(contents, "one", "more")));
    assertThat(longer.items().subList(0, 80)).isEqualTo(whole.items());

    Turn other = turn(conversation(append(Arrays.copyOf(contents, 70), "other")));

    for (int i = 0; i < 70; i++) {
      boolean leadsBeyond = i == 64;
      assertThat(other.items().get(i) == longer.items().get(i)).isEqualTo(!leadsBeyond);
    }
    Turn branch = turn(conversation(append(Arrays.copyOf(contents, 3), "branch")));
    assertThat(branch.items().getFirst()).isNotSameAs(whole.items().getFirst());
  }

  private static String[] append(String[] contents, String... more) {
    return Stream.concat(Arrays.stream(contents), Arrays.stream(more)).toArray(String[]::new);
  }

  @Test
  void whatATemplateCouldTellApartIsNotTheSame() throws Exception {
    SequencedMap<String, Json> swapped = new LinkedHashMap<>();
    swapped.put("content", new Json.Str("a"));
    swapped.put("role", new Json.Str("user"));
    turn(List.of(message("user", "a")));
    assertThat(memory.recall(List.of(new Json.Obj(swapped)), FORM).before()).isNull();
    assertThat(memory.recall(List.of(message("user", "b")), FORM).before()).isNull();
    assertThat(memory.recall(List.of(message("system", "a")), FORM).before()).isNull();

    SequencedMap<String, Json> number = new LinkedHashMap<>(message("user", "a").fields());
    number.put("n", new Json.Int(1));
    turn(List.of(new Json.Obj(number)));
    SequencedMap<String, Json> real = new LinkedHashMap<>(message("user", "a").fields());
    real.put("n", new Json.Real(1));
    Turn other = memory.recall(List.of(new Json.Obj(real)), FORM);
    assertThat(other.before()).isNull();
  }

  @Test
  void anotherFormMakesOtherItems() throws Exception {
    turn(conversation("a"));
    assertThat(memory.recall(conversation("a"), new Form(ContentFormat.OPENAI, false)).before())
        .isNull();
    assertThat(memory.recall(conversation("a"), new Form(ContentFormat.STRING, true)).before())
        .isNull();
  }

  @Test
  void conversationsThatBeginAlikePushOutTheOneUsedLeast() throws Exception {
    for (int i = 0; i < 6; i++) {
      turn(conversation("same", "answer " + i, "question"));
    }
    assertThat(shared(conversation("same", "answer 0", "question"))).isEqualTo(1);
    assertThat(shared(conversation("same", "answer 5", "question"))).isEqualTo(3);
  }

  /** Messages in front that are remembered. */
  @SuppressWarnings("ReferenceEquality") // the same message, not an equal one
  private int shared(List<Json.Obj> messages) throws Exception {
    Turn once = memory.recall(messages, FORM);
    Turn again = memory.recall(messages, FORM);
    int shared = 0;
    while (shared < messages.size() && jsons(once).get(shared) == jsons(again).get(shared)) {
      shared++;
    }
    return shared;
  }

  @Test
  void memoryStaysWithinItsBoundAndTheLastUsedStay() throws Exception {
    List<Json.Obj> favourite = conversation("favourite");
    turn(favourite);
    for (int i = 0; i < 2000; i++) {
      turn(conversation("x".repeat(100) + i, "y".repeat(500)));
      assertThat(memory.bytes()).isLessThanOrEqualTo(1 << 20);
      assertThat(shared(favourite)).isEqualTo(1);
    }
    assertThat(shared(conversation("x".repeat(100) + 0, "y".repeat(500)))).isZero();
  }

  @Test
  void aConversationThatIsMuchTooLongIsNotKept() throws Exception {
    turn(conversation("x".repeat(1 << 20)));
    assertThat(memory.bytes()).isZero();
  }

  @Test
  void threadsMayTakeTurnsAtOnce() throws Exception {
    try (var threads = Executors.newFixedThreadPool(4)) {
      List<Future<?>> done = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        done.add(
            threads.submit(
                () -> {
                  for (int i = 0; i < 3000; i++) {
                    Turn turn = turn(conversation("a" + i % 50, "b" + i % 7, "c".repeat(i % 300)));
                    assertThat(turn.items()).hasSize(3);
                    assertThat(turn.items().get(1).json().get("content"))
                        .isEqualTo(new Json.Str("b" + i % 7));
                  }
                  return null;
                }));
      }
      for (Future<?> each : done) {
        each.get();
      }
    }
    assertThat(memory.bytes()).isLessThanOrEqualTo(1 << 20);
  }

  /** What is used while the oldest are looked for: sorting by a time that moves may fail. */
  @Test
  void conversationsMayBeUsedWhileOthersGo() throws Exception {
    var random = new SplittableRandom(5);
    long[] times = random.longs(1 << 12).toArray();
    var calls = new AtomicInteger();
    var restless =
        new ConversationMemory(
            4 << 20, () -> times[calls.incrementAndGet() & times.length - 1] >>> 1);
    var stop = new AtomicBoolean();
    try (var threads = Executors.newFixedThreadPool(2)) {
      List<Future<?>> users = new ArrayList<>();
      for (int t = 0; t < 2; t++) {
        users.add(
            threads.submit(
                () -> {
                  for (int i = 0; !stop.get(); i++) {
                    restless.recall(conversation("a" + i % 20_000), FORM);
                  }
                  return null;
                }));
      }
      try {
        for (int i = 0; i < 100_000; i++) {
          Turn turn = restless.recall(conversation("a" + i % 20_000), FORM);
          restless.keep(turn, EncodedTexts.of(1));
        }
      } finally {
        stop.set(true);
      }
      for (Future<?> user : users) {
        user.get();
      }
    }
    assertThat(restless.bytes()).isLessThanOrEqualTo(4 << 20);
  }

  /** Many in one tick of the clock. */
  @Test
  void memoryStaysWithinItsBoundWhileTheClockStands() throws Exception {
    var still = new ConversationMemory(1 << 20, () -> 1);
    for (int i = 0; i < 5000; i++) {
      still.keep(still.recall(conversation("a" + i), FORM), EncodedTexts.of(1));
      assertThat(still.bytes()).isLessThanOrEqualTo(1 << 20);
    }
  }

  /** Text around the messages, of tools perhaps, with few ids for much of it. */
  @Test
  void textOfTheTemplatesOwnCounts() throws Exception {
    Turn turn = memory.recall(conversation("a"), FORM);
    memory.keep(turn, EncodedTexts.of(" ".repeat(30_000), 100));
    assertThat(memory.bytes()).isGreaterThan(30_000);

    Turn large = memory.recall(conversation("b"), FORM);
    memory.keep(large, EncodedTexts.of(" ".repeat(300_000), 1000));
    assertThat(memory.bytes()).isLessThan(200_000);
  }
}
