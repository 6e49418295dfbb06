// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.queue;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.server.queue.WaitingRoom.End;
import io.kvoy.server.queue.WaitingRoom.Guest;
import io.kvoy.server.queue.WaitingRoom.Place;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class WaitingRoomTest {
  private static final Duration LONG = Duration.ofMinutes(1);

  private final WaitingRoom<String> room = new WaitingRoom<>(System::nanoTime);
  private final Counts counts = new Counts();
  private final List<String> got = Collections.synchronizedList(new ArrayList<>());
  private final AtomicInteger undone = new AtomicInteger();

  private static final class Counts implements WaitingRoom.Meter {
    final AtomicInteger waiting = new AtomicInteger();
    final Map<End, AtomicInteger> ends = new EnumMap<>(End.class);

    Counts() {
      for (End end : End.values()) {
        ends.put(end, new AtomicInteger());
      }
    }

    int ended(End end) {
      return Objects.requireNonNull(ends.get(end)).get();
    }

    @Override
    public void entered() {
      waiting.incrementAndGet();
    }

    @Override
    public void ended(End end, long nanos) {
      waiting.decrementAndGet();
      Objects.requireNonNull(ends.get(end)).incrementAndGet();
    }
  }

  private Guest<String> guest(int priority, Supplier<? extends @Nullable String> attempt) {
    return guest(priority, attempt, got::add);
  }

  private Guest<String> guest(
      int priority, Supplier<? extends @Nullable String> attempt, Consumer<String> later) {
    return new Guest<>(
        priority,
        "",
        attempt,
        () -> "expired",
        () -> "failed",
        value -> {
          later.accept(value);
          return true;
        },
        _ -> undone.incrementAndGet(),
        counts);
  }

  @AfterEach
  void close() {
    room.close();
  }

  @Test
  void smallRequestsPassALargeOneButOnlySoManyTry() {
    AtomicInteger tries = new AtomicInteger();
    for (int i = 0; i < WaitingRoom.MAX_MISSES - 1; i++) {
      assertThat(room.enter("pool", guest(0, () -> null), 100, LONG)).isNotNull();
    }
    assertThat(room.enter("pool", guest(0, () -> "small"), 100, LONG)).isNotNull();
    assertThat(room.enter("pool", guest(0, () -> null), 100, LONG)).isNotNull();
    Guest<String> unheard =
        guest(
            0,
            () -> {
              tries.incrementAndGet();
              return "too far behind";
            });
    assertThat(room.enter("pool", unheard, 100, LONG)).isNotNull();
    assertThat(room.enter("another pool", guest(0, () -> "other line"), 100, LONG)).isNotNull();

    await().untilAsserted(() -> assertThat(got).contains("small", "other line"));
    assertThat(tries).hasValue(0);
  }

  @Test
  void failureOfOneAttemptIsNobodyElses() {
    Guest<String> faulty =
        guest(
            1,
            () -> {
              throw new IllegalStateException("a bug");
            });
    assertThat(room.enter("pool", faulty, 10, LONG)).isNotNull();
    Guest<String> unreachable =
        guest(
            0,
            () -> "taken",
            _ -> {
              throw new IllegalStateException("another bug");
            });
    assertThat(room.enter("pool", unreachable, 10, LONG)).isNotNull();
    assertThat(room.enter("pool", guest(0, () -> "fine"), 10, LONG)).isNotNull();

    await().untilAsserted(() -> assertThat(got).containsExactly("failed", "fine"));
    assertThat(counts.waiting).hasValue(0);
  }

  @Test
  void priorityOfThoseWhoWaitIsKnown() {
    assertThat(room.isBehind("pool", -5)).isFalse();
    Place<String> place = room.enter("pool", guest(3, () -> null), 10, LONG);

    assertThat(room.isBehind("pool", 4)).isFalse();
    assertThat(room.isBehind("pool", 3)).isTrue();
    assertThat(room.isBehind("another pool", 3)).isFalse();
    Objects.requireNonNull(place).leave();
    assertThat(room.isBehind("pool", 3)).isFalse();
  }

  @Test
  void theEndIsTheEndOfEveryWaitAndNobodyEntersAfterIt() {
    assertThat(room.enter("pool", guest(0, () -> null), 10, LONG)).isNotNull();

    room.close();

    assertThat(got).containsExactly("expired");

    assertThat(room.enter("pool", guest(0, () -> "late"), 10, LONG)).isNull();
    assertThat(room.isBehind("pool", 0)).isFalse();
  }

  @Test
  void eachWaitEndsOnceWhoeverComesAndGoes() throws Exception {
    int guests = 4000;
    AtomicInteger handedOver = new AtomicInteger();
    AtomicInteger placed = new AtomicInteger();
    AtomicInteger refused = new AtomicInteger();
    try (var threads = Executors.newFixedThreadPool(4)) {
      for (int t = 0; t < 4; t++) {
        Random random = new Random(t);
        threads.execute(
            () -> {
              for (int i = 0; i < guests / 4; i++) {
                boolean finds = random.nextInt(3) > 0;
                Supplier<@Nullable String> attempt =
                    () -> {
                      if (!finds) {
                        return null;
                      }
                      placed.incrementAndGet();
                      return "got";
                    };
                Place<String> place =
                    room.enter(
                        "pool" + random.nextInt(2),
                        guest(random.nextInt(3), attempt, _ -> handedOver.incrementAndGet()),
                        1000,
                        Duration.ofMillis(random.nextInt(1, 60)));
                if (place == null) {
                  refused.incrementAndGet();
                } else if (random.nextBoolean()) {
                  place.leave();
                }
              }
            });
      }
    }

    await()
        .untilAsserted(
            () ->
                assertThat(
                        counts.ended(End.PLACED)
                            + counts.ended(End.EXPIRED)
                            + counts.ended(End.LEFT))
                    .isEqualTo(guests - refused.get()));
    await().untilAsserted(() -> assertThat(counts.waiting).hasValue(0));
    await()
        .untilAsserted(
            () ->
                assertThat(handedOver.get())
                    .isEqualTo(counts.ended(End.PLACED) + counts.ended(End.EXPIRED)));
    assertThat(room.isBehind("pool0", 0) || room.isBehind("pool1", 0)).isFalse();
    await()
        .untilAsserted(
            () -> assertThat(counts.ended(End.PLACED) + undone.get()).isEqualTo(placed.get()));
  }
}
