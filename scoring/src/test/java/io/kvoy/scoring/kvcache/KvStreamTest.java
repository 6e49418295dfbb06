// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A publisher's sequence with everything that can happen to it, by hand and with a clock of our
 * own.
 */
class KvStreamTest {

  private static final KvMessage END = new KvMessage.ReplayEnd();
  private static final long SECOND = Duration.ofSeconds(1).toNanos();

  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final Worker worker = Fleet.worker(0, 1);
  private final Fleet.Heard heard = new Fleet.Heard();
  private final WorkerBlocks blocks = index.open(worker, KvViewState.SYNCING, heard);
  private long now;
  private KvStream stream = stream(true);

  private KvStream stream(boolean canReplay) {
    return new KvStream(blocks, canReplay, KvStreamConfig.DEFAULT, new KvEventDecoder(), heard);
  }

  private static KvMessage.Published stores(long sequence, long hash) {
    return MsgPack.message(
        sequence,
        (double) sequence,
        Fleet.stored(new long[] {hash}, 0, Fleet.ids((int) hash * 100, 16), 16));
  }

  private static KvMessage.Published removes(long sequence, long hash) {
    return MsgPack.message(sequence, (double) sequence, Fleet.removed(hash));
  }

  private void publish(KvMessage... messages) {
    for (KvMessage message : messages) {
      stream.onPublished(message, now, now);
    }
  }

  private void publishFile(String name) {
    for (Map<String, Object> line : TestJson.lines("cases/" + name)) {
      publish(MsgPack.message(line));
    }
  }

  private void answer(KvStream.AskReplay ask, KvMessage... messages) {
    for (KvMessage message : messages) {
      stream.onReplayed(ask.id(), message, now);
    }
  }

  private KvStream.AskReplay asked(long from) {
    if (stream.poll() instanceof KvStream.AskReplay ask) {
      assertThat(ask.fromSequence()).isEqualTo(from);
      return ask;
    }
    throw new AssertionError("expected a wish for a replay from " + from);
  }

  private List<Long> present(long... hashes) {
    List<Long> present = new ArrayList<>();
    for (long hash : hashes) {
      if (blocks.holds(hash)) {
        present.add(hash);
      }
    }
    return present;
  }

  /** Subscribed at a publisher that has said nothing yet. */
  private void startLive() {
    stream.start(now);
    answer(asked(0), END);
    assertThat(stream.blocks().state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void KVE_01_lateSubscriberAsksForEverythingOnceAndThenIsLive() {
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    publish(stores(502, 3)); // live while the replay is under way
    assertThat(blocks.state()).isEqualTo(KvViewState.SYNCING);

    answer(ask, stores(0, 1), stores(1, 2));
    for (long sequence = 2; sequence < 502; sequence++) {
      answer(ask, removes(sequence, 99));
    }
    answer(ask, END);

    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
    assertThat(present(1, 2, 3)).containsExactly(1L, 2L, 3L);
    assertThat(stream.cursor()).isEqualTo(502);
    assertThat(stream.poll()).isNull();
  }

  @Test
  void KVE_01_withoutReplayTheLateSubscriberIsPartialAndUsable() {
    stream = stream(false);
    stream.start(now);

    publish(stores(500, 1), stores(501, 2));

    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);
    assertThat(blocks.state().trust()).isEqualTo(KvViewState.Trust.PARTIAL);
    assertThat(present(1, 2)).containsExactly(1L, 2L);
    assertThat(stream.poll()).isNull();
  }

  @Test
  void KVE_02_gapIsFilledByReplay() {
    startLive();
    publishFile("kve-gap.jsonl");
    assertThat(blocks.state()).isEqualTo(KvViewState.GAPPED);

    answer(
        asked(3),
        MsgPack.message(3, 1, Fleet.stored(new long[] {3}, 1, Fleet.ids(700, 16), 16)),
        removes(4, 3),
        END);

    assertThat(present(1, 2, 3, 5)).containsExactly(1L, 5L);
    assertThat(heard.gaps).isOne();
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void KVE_02_withoutReplayOnlyWhatCameAfterTheGapIsCertain() {
    stream = stream(false);
    stream.start(now);

    publishFile("kve-gap.jsonl");

    assertThat(present(1, 2, 3, 5)).containsExactly(5L);
    assertThat(heard.gaps).isOne();
    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);
  }

  @Test
  void KVE_02_unansweredReplayEndsInAPartialViewAndIsTriedAgainLater() {
    startLive();
    publish(stores(0, 1), stores(5, 5));
    asked(1);

    for (int attempt = 1; attempt < KvStreamConfig.DEFAULT.replayAttempts(); attempt++) {
      now += 3 * SECOND;
      stream.tick(now, 0);
      asked(1);
    }
    now += 3 * SECOND;
    stream.tick(now, 0);

    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);
    assertThat(present(1, 5)).containsExactly(5L);
    assertThat(stream.poll()).isNull();

    now += 61 * SECOND;
    stream.tick(now, 0);
    answer(
        asked(0),
        stores(0, 1),
        stores(1, 2),
        stores(2, 3),
        stores(3, 4),
        removes(4, 3),
        stores(5, 5),
        END);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
    assertThat(present(1, 2, 3, 4, 5)).containsExactly(1L, 2L, 4L, 5L);
  }

  @Test
  void KVE_02_whenTheRingHasWrappedTheViewStartsEmpty() {
    startLive();
    publish(stores(0, 1), stores(9, 9));

    answer(asked(1), stores(7, 7), stores(8, 8), END);

    assertThat(present(1, 7, 8, 9)).containsExactly(7L, 8L, 9L);
    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);
    assertThat(heard.log).contains("replay WRAPPED");
  }

  @Test
  void KVE_02_holeInAReplayIsAskedForAgain() {
    startLive();
    publish(stores(0, 1), stores(6, 6));
    KvStream.AskReplay first = asked(1);
    answer(first, stores(1, 2), stores(4, 4));

    KvStream.AskReplay second = asked(2);
    answer(first, stores(5, 5), END); // of no interest any more
    answer(second, stores(2, 3), removes(3, 1), stores(4, 4), stores(5, 5), END);

    assertThat(present(1, 2, 3, 4, 5, 6)).containsExactly(2L, 3L, 4L, 5L, 6L);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void KVE_03_fallingSequenceIsANewLife() {
    stream = stream(false);
    stream.start(now);

    publishFile("kve-restart.jsonl");

    assertThat(present(9, 10, 1, 2)).containsExactly(9L, 10L);
    assertThat(heard.restarts).isOne();
    assertThat(stream.cursor()).isOne();
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void KVE_03_restartSeenLateIsReplayedFromItsBeginning() {
    startLive();
    publish(stores(0, 1), stores(1, 2), stores(2, 3), stores(3, 4));

    publish(MsgPack.message(2, 77, Fleet.stored(new long[] {22}, 0, Fleet.ids(9000, 16), 16)));

    assertThat(present(1, 2, 3, 4)).isEmpty();
    answer(
        asked(0),
        MsgPack.message(0, 75, Fleet.stored(new long[] {20}, 0, Fleet.ids(7000, 16), 16)),
        MsgPack.message(1, 76, Fleet.stored(new long[] {21}, 0, Fleet.ids(8000, 16), 16)),
        MsgPack.message(2, 77, Fleet.stored(new long[] {22}, 0, Fleet.ids(9000, 16), 16)),
        END);
    assertThat(present(20, 21, 22)).containsExactly(20L, 21L, 22L);
    assertThat(blocks.references()).isEqualTo(3);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void KVE_03_restartThatHasOvertakenUsIsFoundAfterTheReconnection() {
    startLive();
    publish(stores(0, 1), stores(1, 2));

    stream.onInterruption(now);
    KvStream.AskReplay probe = asked(1);
    answer(probe, MsgPack.message(1, 99, Fleet.removed(4))); // another message 1 than ours
    answer(probe, stores(2, 8), END);

    assertThat(heard.restarts).isOne();
    assertThat(present(1, 2)).isEmpty();
    answer(asked(0), stores(0, 6), MsgPack.message(1, 99, Fleet.removed(4)), stores(2, 8), END);
    assertThat(present(6, 8)).containsExactly(6L, 8L);
  }

  @Test
  void KVE_03_restartWithAShorterHistoryIsFoundAfterTheReconnection() {
    startLive();
    publish(stores(0, 1), stores(1, 2));

    stream.onInterruption(now);
    answer(asked(1), END);

    assertThat(heard.restarts).isOne();
    answer(asked(0), END);
    assertThat(present(1, 2)).isEmpty();
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void reconnectionToTheSamePublisherKeepsTheViewAndFetchesWhatWasMissed() {
    startLive();
    publish(stores(0, 1), stores(1, 2));

    stream.onInterruption(now);
    answer(asked(1), stores(1, 2), stores(2, 3), END);

    assertThat(heard.restarts).isZero();
    assertThat(present(1, 2, 3)).containsExactly(1L, 2L, 3L);
    assertThat(blocks.references()).isEqualTo(3);
  }

  @Test
  void interruptionDuringAReplayIsLookedIntoAfterwards() {
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    stream.onInterruption(now);
    assertThat(stream.poll()).isNull();

    answer(ask, stores(0, 1), stores(1, 2), END);

    answer(asked(1), stores(1, 2), stores(2, 3), END);
    assertThat(present(1, 2, 3)).containsExactly(1L, 2L, 3L);
    assertThat(stream.poll()).isEqualTo(new KvStream.Reconnect());
  }

  @Test
  void KVE_05_everyStoreNeedsItsRemove() {
    stream = stream(false);
    stream.start(now);
    List<Boolean> presentAfter = new ArrayList<>();

    for (Map<String, Object> line : TestJson.lines("cases/kve-dup-remove.jsonl")) {
      publish(MsgPack.message(line));
      presentAfter.add(blocks.holds(7));
    }

    assertThat(presentAfter).containsExactly(true, true, true, false);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void KVE_05_messagesThatComeTwiceCountOnce(boolean canReplay) {
    stream = stream(canReplay);
    stream.start(now);
    if (canReplay) {
      answer(asked(0), END);
    }
    List<KvMessage.Published> messages =
        TestJson.lines("cases/kve-dup-remove.jsonl").stream().map(MsgPack::message).toList();

    publish(messages.get(0), messages.get(1));
    publish(messages.get(0), messages.get(1)); // again
    assertThat(blocks.references()).isEqualTo(2);
    publish(messages.get(2), messages.get(3));

    assertThat(blocks.holds(7)).isFalse();
    assertThat(heard.duplicates).isEqualTo(2);
    assertThat(heard.restarts).isZero();
  }

  @Test
  void KVE_05_replayThatOverlapsLiveMessagesCountsOnce() {
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    publish(stores(0, 1), stores(1, 1));

    answer(ask, stores(0, 1), stores(1, 1), stores(2, 1), END);
    publish(removes(3, 1), removes(4, 1));

    assertThat(blocks.references()).isOne();
  }

  @Test
  void KVE_06_clearingEmptiesThisWorkerOnlyAndMakesAPartialViewWhole() {
    Worker otherRank = Fleet.worker(1, 1);
    WorkerBlocks other = index.open(otherRank, KvViewState.LIVE, heard);
    other.apply(Fleet.batch(Fleet.stored(new long[] {1}, 0, Fleet.ids(100, 16), 16)));
    stream = stream(false);
    stream.start(now);
    publish(stores(7, 1));
    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);

    publish(MsgPack.message(8, 1, new KvEvent.AllBlocksCleared()), stores(9, 2));

    assertThat(present(1, 2)).containsExactly(2L);
    assertThat(other.holds(1)).isTrue();
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
    assertThat(heard.cleared).isOne();
  }

  @Test
  void KVE_08_lostMessagesAreSeenByTheSequenceOfTheNextOne() {
    startLive();
    publish(stores(0, 1));

    publish(stores(50_000, 2)); // the hand-over queue was full

    asked(1);
    assertThat(blocks.state()).isEqualTo(KvViewState.GAPPED);
  }

  /** A reader that was paused finds thousands of messages that the replay has already brought. */
  @Test
  void KVE_08_messagesThatAReplayHasOvertakenAreNoRestart() {
    startLive();
    publish(stores(0, 1), stores(2, 3));
    KvStream.AskReplay ask = asked(1);
    for (long sequence = 3; sequence < 1_000; sequence++) {
      publish(removes(sequence, 99));
    }
    answer(ask, stores(1, 2), stores(2, 3));
    for (long sequence = 3; sequence < 5_000; sequence++) {
      answer(ask, removes(sequence, 99));
    }
    answer(ask, END);
    for (long sequence = 1_000; sequence < 2_000; sequence++) {
      publish(removes(sequence, 99));
    }

    assertThat(heard.restarts).isZero();
    assertThat(stream.poll()).isNull();
    assertThat(present(1, 2, 3)).containsExactly(1L, 2L, 3L);
    assertThat(stream.cursor()).isEqualTo(4_999);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);

    // Here the publisher's own sequence falls.
    publish(MsgPack.message(1_000, 77, Fleet.removed(98)));

    assertThat(heard.restarts).isOne();
    asked(0);
  }

  /** Its first message was lost, and the sequence is one that the replay of the old life passed. */
  @Test
  void KVE_03_newLifeIsFoundBeforeItsSequenceReachesTheOldOnes() {
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    for (long sequence = 0; sequence < 1_000; sequence++) {
      answer(ask, removes(sequence, 99));
    }
    answer(ask, END);

    for (long sequence = 1; sequence < 1_000 && heard.restarts == 0; sequence++) {
      publish(removes(sequence, 98));
    }

    assertThat(heard.restarts).isOne();
  }

  @Test
  void KVE_02_gapBeforeAFailedReplayIsStillSeenBehindIt() {
    startLive();
    publish(stores(0, 1), stores(1, 2));
    stream.onInterruption(now);
    asked(1);
    for (int attempt = 1; attempt < KvStreamConfig.DEFAULT.replayAttempts(); attempt++) {
      now += 3 * SECOND;
      stream.tick(now, 0);
      asked(1);
    }
    now += 3 * SECOND;
    stream.tick(now, 0);
    assertThat(stream.poll()).isEqualTo(new KvStream.Reconnect());
    // The retry from the beginning fails too, while a message is lost.
    now += 61 * SECOND;
    stream.tick(now, 0);
    for (int attempt = 0; attempt < KvStreamConfig.DEFAULT.replayAttempts(); attempt++) {
      asked(0);
      now += 3 * SECOND;
      stream.tick(now, 0);
    }
    publish(stores(3, 4));

    assertThat(heard.gaps).isOne();
  }

  @Test
  void KVE_03_newLifeWhoseFirstMessageIsTheFirstThatWeHear() {
    stream.start(now);
    answer(asked(0), stores(0, 1), stores(1, 2), END);

    publish(MsgPack.message(0, 77, Fleet.stored(new long[] {7}, 0, Fleet.ids(700, 16), 16)));

    assertThat(heard.restarts).isOne();
    assertThat(present(1, 2, 7)).containsExactly(7L);
  }

  @Test
  void KVE_09_malformedMessagesAreCountedAndTheNextGoodOneIsApplied() {
    stream = stream(false);
    stream.start(now);

    for (Map<String, Object> line : TestJson.lines("cases/kve-malformed.jsonl")) {
      publish(
          KvMessage.ofPublished(
              TestJson.asList(line.get("frames_hex")).stream()
                  .map(hex -> Fleet.hex((String) hex))
                  .toList()));
    }

    assertThat(heard.malformed.values().stream().mapToInt(n -> n).sum()).isEqualTo(7);
    assertThat(present(11)).containsExactly(11L);
    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);
  }

  @Test
  void KVE_10_silenceWithRequestsAtTheWorkerIsProbedAndThenReconnected() {
    startLive();
    publish(stores(0, 1));

    now += 30 * SECOND;
    stream.tick(now, 0);
    assertThat(stream.poll()).as("idle workers may be silent").isNull();

    stream.tick(now, 3);
    now += 21 * SECOND;
    stream.tick(now, 3);
    asked(0); // message 0 is the last one known
    for (int attempt = 1; attempt < KvStreamConfig.DEFAULT.replayAttempts(); attempt++) {
      now += 3 * SECOND;
      stream.tick(now, 3);
      asked(0);
    }
    now += 3 * SECOND;
    stream.tick(now, 3);

    assertThat(stream.poll()).isEqualTo(new KvStream.Reconnect());
    assertThat(blocks.state()).isEqualTo(KvViewState.SILENT);
    assertThat(blocks.state().trust()).isEqualTo(KvViewState.Trust.NONE);

    stream.onInterruption(now);
    answer(asked(0), stores(0, 1), stores(1, 2), END);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
    assertThat(present(1, 2)).containsExactly(1L, 2L);
  }

  @Test
  void KVE_10_quietWorkerWhoseProbeIsAnsweredStaysLive() {
    startLive();
    publish(stores(0, 1));
    stream.tick(now, 1);
    now += 21 * SECOND;
    stream.tick(now, 1);

    answer(asked(0), stores(0, 1), END);

    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
    assertThat(stream.poll()).isNull();
  }

  @Test
  void KVE_10_probeThatBringsNewsShowsADeadSubscription() {
    startLive();
    publish(stores(0, 1));
    stream.tick(now, 1);
    now += 21 * SECOND;
    stream.tick(now, 1);

    answer(asked(0), stores(0, 1), stores(1, 2), END);

    assertThat(stream.poll()).isEqualTo(new KvStream.Reconnect());
    assertThat(present(1, 2)).containsExactly(1L, 2L);
  }

  @Test
  void KVE_10_withoutReplaySilentViewsAreNotTrustedUntilHeardAgain() {
    stream = stream(false);
    stream.start(now);
    publish(stores(0, 1));
    stream.tick(now, 1);
    now += 21 * SECOND;
    stream.tick(now, 1);

    assertThat(blocks.state()).isEqualTo(KvViewState.SILENT);
    assertThat(stream.poll()).isEqualTo(new KvStream.Reconnect());
    publish(stores(1, 2));
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @Test
  void heldMessagesAreBoundedAndTheRestIsAskedForLater() {
    KvStreamConfig tight =
        new KvStreamConfig(
            Duration.ofSeconds(2), 3, Duration.ofSeconds(60), Duration.ofSeconds(20), 1_500);
    stream = new KvStream(blocks, true, tight, new KvEventDecoder(), heard);
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    for (int sequence = 1; sequence < 50; sequence++) {
      publish(stores(sequence, sequence + 1));
    }

    answer(ask, stores(0, 1), END);
    publish(stores(50, 51));

    long from = stream.cursor() + 1;
    assertThat(from).isBetween(2L, 10L);
    KvStream.AskReplay rest = asked(from);
    for (long sequence = from; sequence <= 50; sequence++) {
      answer(rest, stores(sequence, sequence + 1));
    }
    answer(rest, END);
    assertThat(blocks.references()).isEqualTo(51);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "session-a",
        "session-b-after-restart",
        "session-c-llama-bytes-connect",
        "session-d-hybrid-gemma3"
      })
  void recordedReplayGivesTheSameViewAsTheLiveMessages(String session) {
    KvStream replayed = stream;
    replayed.start(now);
    int id = asked(0).id();
    ReferenceModel model = new ReferenceModel();
    boolean isFirstReplay = true;
    long firstSequence = -1;
    List<KvMessage.Published> live = new ArrayList<>();
    List<RecordedSession.Step> steps = RecordedSession.read(session);
    for (RecordedSession.Step step : steps) {
      if (step instanceof RecordedSession.Replayed(String socket, List<byte[]> frames)
          && socket.equals("DEALER")
          && isFirstReplay) {
        KvMessage message = KvMessage.ofReplayed(frames);
        if (message instanceof KvMessage.Published published && firstSequence < 0) {
          firstSequence = published.sequence();
        }
        replayed.onReplayed(id, message, now);
        isFirstReplay = !(message instanceof KvMessage.ReplayEnd);
      } else if (step instanceof RecordedSession.Published(var frames)) {
        live.add((KvMessage.Published) KvMessage.ofPublished(frames));
      }
    }
    assertThat(isFirstReplay).as("the recording has a replay").isFalse();
    for (KvMessage.Published message : live) {
      if (message.sequence() > replayed.cursor()) {
        publish(message); // what came after the replay
      }
      if (message.sequence() >= firstSequence) {
        model.apply(((KvDecode.Decoded) new KvEventDecoder().decode(message.payload())).batch());
      }
    }

    assertThat(stream.cursor()).isEqualTo(live.getLast().sequence());
    assertThat(blocks.blocks()).isEqualTo(model.blocks());
    assertThat(blocks.references()).isEqualTo(model.references());
    assertThat(blocks.state())
        .isEqualTo(firstSequence == 0 ? KvViewState.LIVE : KvViewState.PARTIAL);
  }

  @ParameterizedTest
  @CsvSource({
    "session-a, 1",
    "session-a, 2",
    "session-a, 3",
    "session-b-after-restart, 4",
    "session-b-after-restart, 5",
    "session-c-llama-bytes-connect, 6",
    "session-c-llama-bytes-connect, 7",
    "session-d-hybrid-gemma3, 8",
    "session-d-hybrid-gemma3, 9",
    "session-d-hybrid-gemma3, 10"
  })
  void recordedSessionsAreWholeThoughMessagesAreLostDoubledAndReordered(String session, long seed) {
    List<KvMessage.Published> sent = new ArrayList<>();
    ReferenceModel model = new ReferenceModel();
    for (RecordedSession.Step step : RecordedSession.read(session)) {
      if (step instanceof RecordedSession.Published(var frames)) {
        KvMessage.Published message = (KvMessage.Published) KvMessage.ofPublished(frames);
        sent.add(message);
        model.apply(((KvDecode.Decoded) new KvEventDecoder().decode(message.payload())).batch());
      }
    }
    Random random = new Random(seed);
    stream.start(now);
    int published = 0;
    serve(sent, published);
    int lost = 0;
    for (int i = 0; i < sent.size(); i++) {
      published = i + 1;
      boolean isSwapped = random.nextInt(6) == 0 && i + 1 < sent.size();
      if (isSwapped) {
        published++;
        publish(sent.get(i + 1));
        serve(sent, published);
        publish(sent.get(i));
        i++;
      } else if (lost == 0 || random.nextInt(5) == 0) {
        lost++;
      } else {
        publish(sent.get(i));
      }
      if (random.nextInt(5) == 0) {
        publish(sent.get(random.nextInt(i + 1))); // once more, or a lost one late
      }
      if (random.nextInt(2) == 0) {
        serve(sent, published);
      }
    }
    serve(sent, published);
    stream.onInterruption(now); // the connection is looked after when it is quiet
    serve(sent, published);

    assertThat(lost).isPositive();
    assertThat(stream.cursor()).isEqualTo(sent.getLast().sequence());
    assertThat(blocks.blocks()).isEqualTo(model.blocks());
    assertThat(blocks.references()).isEqualTo(model.references());
    assertThat(heard.restarts).isZero();
  }

  /** Answers replays from what was sent so far. */
  private void serve(List<KvMessage.Published> sent, int published) {
    for (KvStream.Wish wish = stream.poll(); wish != null; wish = stream.poll()) {
      if (wish instanceof KvStream.AskReplay ask) {
        for (KvMessage.Published message : sent.subList(0, published)) {
          if (message.sequence() >= ask.fromSequence()) {
            answer(ask, message);
          }
        }
        answer(ask, END);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(doubles = {-30, 30, 1e12, -1, Double.NaN})
  void HA_07_timeStampsOfEventsDecideNothing(double offsetSeconds) {
    startLive();
    publish(
        MsgPack.message(0, 1e9, Fleet.stored(new long[] {1}, 0, Fleet.ids(100, 16), 16)),
        MsgPack.message(
            1, 1e9 + offsetSeconds, Fleet.stored(new long[] {2}, 0, Fleet.ids(500, 16), 16)),
        MsgPack.message(2, 1e9, Fleet.removed(1)));

    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
    assertThat(present(1, 2)).containsExactly(2L);
    assertThat(heard.gaps + heard.restarts).isZero();
  }

  @Test
  void KVE_09_batchThatCannotBeReadMayHaveBroughtRemovals() {
    stream = stream(false);
    stream.start(now);
    publish(stores(0, 1));
    byte[] whole = removes(1, 1).payload();

    publish(new KvMessage.Published("kv@w@m", 1, java.util.Arrays.copyOf(whole, whole.length - 9)));
    publish(stores(2, 3));

    assertThat(present(1, 3)).containsExactly(3L);
    assertThat(blocks.state()).isEqualTo(KvViewState.PARTIAL);
    assertThat(heard.malformed.values()).containsExactly(1);
  }

  @Test
  void heldMessagesWithoutPayloadAreBoundedToo() {
    KvStreamConfig tight =
        new KvStreamConfig(
            Duration.ofSeconds(2), 3, Duration.ofSeconds(60), Duration.ofSeconds(20), 16_000);
    stream = new KvStream(blocks, true, tight, new KvEventDecoder(), heard);
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    for (int sequence = 1; sequence <= 1_000; sequence++) {
      publish(new KvMessage.Published("", sequence, new byte[0]));
    }

    answer(ask, stores(0, 1), END);

    assertThat(heard.malformed.values()).allMatch(count -> count <= 100);
    assertThat(stream.cursor()).isBetween(50L, 100L);
  }

  @Test
  void replayThatWaitsForItsTurnIsNotGivenUp() {
    stream.start(now);
    KvStream.AskReplay ask = asked(0);
    for (int second = 0; second < 30; second++) {
      now += SECOND;
      stream.onReplayWaiting(ask.id(), now);
      stream.tick(now, 0);
    }
    assertThat(stream.poll()).isNull();

    answer(ask, stores(0, 1), END);
    assertThat(blocks.state()).isEqualTo(KvViewState.LIVE);
  }
}
