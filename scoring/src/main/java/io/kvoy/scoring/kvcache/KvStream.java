// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvCacheListener.ReplayEnd;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import org.jspecify.annotations.Nullable;

/**
 * Follows the sequence of one publisher (one worker, one rank) and keeps its view in the index
 * true: what is missed is asked for again, what cannot be had is forgotten, what comes twice counts
 * once.
 *
 * <p>A state machine without sockets, threads or clock: messages, answers and the time come in
 * through the {@code on...} methods and {@link #tick}; what it wants done comes out of {@link
 * #poll} as values. {@link KvEventSubscriber} plays it over ZeroMQ, {@code kvoyctl kv-replay} over
 * a file, tests by hand. States: see {@link KvViewState}.
 *
 * <h2>How a sequence is read</h2>
 *
 * <ul>
 *   <li>The next number: applied.
 *   <li>A greater one: messages were lost. With a replay socket they are asked for, and what comes
 *       meanwhile is held back; without one, or when the publisher's ring has lost them too, the
 *       view starts empty: what was there may be gone.
 *   <li>The next number with a payload that cannot be read: a gap that no replay can fill.
 *   <li>A smaller one with the payload that we know for it: a duplicate, ignored. So is one that
 *       still goes on from what the publisher sent last: a replay was quicker than the
 *       subscription, perhaps by thousands of messages when we were not reading.
 *   <li>A smaller one that does not: the publisher started anew. Its cache is empty and counts from
 *       0.
 * </ul>
 *
 * <p>After a reconnection the last known message is asked for again: if it comes back different, or
 * not at all, the publisher has started anew although its sequence may have overtaken ours
 * meanwhile.
 *
 * <p>Index writer thread only.
 */
public final class KvStream {

  /** Something to be done outside. */
  public sealed interface Wish {}

  /**
   * Ask the worker's replay socket, over a connection of its own, for everything from {@code
   * fromSequence} on, and bring the answers to {@link #onReplayed} with this {@code id}. An earlier
   * replay's answers are no longer of interest.
   */
  public record AskReplay(long fromSequence, int id) implements Wish {}

  /** Close the connection to the publisher and open it again; then call {@link #onInterruption}. */
  public record Reconnect() implements Wish {}

  /** How many past payloads are remembered to tell a duplicate from a restart. */
  private static final int REMEMBERED = 256;

  private static final long UNKNOWN = -1;

  /** Memory of a held message beside topic and payload, about. */
  private static final int HELD_BYTES = 160;

  private enum Replay {
    NONE,
    /** From the beginning: the view is built anew. */
    WHOLE,
    /** The messages of a gap. */
    GAP,
    /** The last known message and what follows, to see that it is the same publisher. */
    PROBE
  }

  private final WorkerBlocks blocks;
  private final boolean canReplay;
  private final KvStreamConfig config;
  private final KvCacheListener listener;
  private final KvEventDecoder decoder;
  private final Deque<Wish> wishes = new ArrayDeque<>();

  /** Sequence of the next message, or {@link #UNKNOWN}. */
  private long next = UNKNOWN;

  /** Whether everything since the publisher's start (or its last clearing) is in the view. */
  private boolean isComplete;

  /** Greatest sequence that the publisher itself sent, replays aside, or {@link #UNKNOWN}. */
  private long published = UNKNOWN;

  private boolean isClosed;
  private boolean isSilent;
  private long heardNanos;
  private long busySinceNanos;
  private boolean wasBusy;

  private Replay replay = Replay.NONE;
  private int replayId;
  private int replayAttempt;
  private int replayBatches;

  /** Messages applied since the replay was last asked for. */
  private int replayApplied;

  private boolean hasReplayFirst;
  private boolean replayLostSome;
  private boolean replayBroughtNews;
  private long replayProgressNanos;
  private int gapReplays;
  private boolean mustRetry;

  /** An interruption happened during a replay, perhaps after its last message. */
  private boolean mustProbe;

  private long failedNanos;
  private boolean hasReconnected;
  private long reconnectedNanos;

  private final Deque<Held> held = new ArrayDeque<>();
  private long heldBytes;

  private final long[] rememberedSequences = new long[REMEMBERED];
  private final long[] rememberedPayloads = new long[REMEMBERED];

  private record Held(KvMessage.Published message, long receivedNanos) {}

  /**
   * @param canReplay whether there is a replay socket to ask
   * @param decoder may be shared by the streams of one thread
   */
  public KvStream(
      WorkerBlocks blocks,
      boolean canReplay,
      KvStreamConfig config,
      KvEventDecoder decoder,
      KvCacheListener listener) {
    this.blocks = blocks;
    this.canReplay = canReplay;
    this.config = config;
    this.decoder = decoder;
    this.listener = listener;
    Arrays.fill(rememberedSequences, UNKNOWN);
  }

  /** The subscription was just made: whatever was published before must be asked for. */
  public void start(long nowNanos) {
    heardNanos = nowNanos;
    if (canReplay) {
      startReplay(Replay.WHOLE, 0, nowNanos);
    }
    showState();
  }

  /** A message of the PUB socket, received at {@code receivedNanos}. */
  public void onPublished(KvMessage message, long receivedNanos, long nowNanos) {
    if (isClosed) {
      return;
    }
    heardNanos = nowNanos;
    isSilent = false;
    switch (message) {
      case KvDecodeError error -> listener.onMalformed(worker(), error.kind());
      case KvMessage.ReplayEnd _ -> listener.onMalformed(worker(), KvDecodeError.Kind.FRAME_COUNT);
      case KvMessage.Published published when published.sequence() < 0 ->
          listener.onMalformed(worker(), KvDecodeError.Kind.RANGE);
      case KvMessage.Published published -> {
        if (replay == Replay.NONE) {
          live(published, receivedNanos, nowNanos);
        } else {
          hold(published, receivedNanos);
        }
      }
    }
    showState();
  }

  /** The replay with this id waits for its turn here: nobody can have answered yet. */
  void onReplayWaiting(int id, long nowNanos) {
    if (!isClosed && replay != Replay.NONE && id == replayId) {
      replayProgressNanos = nowNanos;
    }
  }

  /** An answer of the replay socket to the wish with this id. */
  public void onReplayed(int id, KvMessage message, long nowNanos) {
    if (isClosed || replay == Replay.NONE || id != replayId) {
      return;
    }
    replayProgressNanos = nowNanos;
    switch (message) {
      case KvDecodeError error -> listener.onMalformed(worker(), error.kind());
      case KvMessage.Published published when published.sequence() < 0 ->
          listener.onMalformed(worker(), KvDecodeError.Kind.RANGE);
      case KvMessage.Published published -> replayed(published, nowNanos);
      case KvMessage.ReplayEnd _ -> replayEnded(nowNanos);
    }
    showState();
  }

  /**
   * Messages may be missing: the connection was lost and is there again, or some were dropped on
   * the way here.
   */
  public void onInterruption(long nowNanos) {
    if (isClosed) {
      return;
    }
    if (canReplay && (replay == Replay.NONE || replay == Replay.PROBE)) {
      probe(nowNanos);
    } else {
      mustProbe = canReplay;
    }
    showState();
  }

  /**
   * Time goes on; call every 100 ms or so.
   *
   * @param inFlight requests that are at the worker now
   */
  public void tick(long nowNanos, int inFlight) {
    if (isClosed) {
      return;
    }
    boolean isBusy = inFlight > 0;
    busySinceNanos = isBusy && wasBusy ? busySinceNanos : nowNanos;
    wasBusy = isBusy;
    if (replay != Replay.NONE) {
      if (nowNanos - replayProgressNanos > config.replayTimeout().toNanos()) {
        replayStuck(nowNanos);
      }
    } else if (mustRetry && nowNanos - failedNanos > config.replayRetry().toNanos()) {
      startReplay(Replay.WHOLE, 0, nowNanos);
    } else if (isBusy && quietNanos(nowNanos) > config.silentAfter().toNanos()) {
      heardNanos = nowNanos;
      if (canReplay) {
        // Perhaps there was nothing to say. The answer comes over another connection and shows it.
        probe(nowNanos);
      } else {
        isSilent = true;
        wishReconnect(nowNanos);
      }
    }
    showState();
  }

  /** The worker has left the fleet. */
  public void close() {
    if (!isClosed) {
      isClosed = true;
      held.clear();
      wishes.clear();
      KvViewState from = blocks.state();
      blocks.close();
      listener.onState(worker(), from, KvViewState.DEAD);
    }
  }

  /** The oldest wish not yet handed out, or null. */
  public @Nullable Wish poll() {
    return wishes.poll();
  }

  /** Sequence of the last message applied; -1 before the first. */
  public long cursor() {
    return next == UNKNOWN ? -1 : next - 1;
  }

  public WorkerBlocks blocks() {
    return blocks;
  }

  private Worker worker() {
    return blocks.worker();
  }

  private long quietNanos(long nowNanos) {
    return nowNanos - Math.max(heardNanos, busySinceNanos);
  }

  private void live(KvMessage.Published message, long receivedNanos, long nowNanos) {
    long sequence = message.sequence();
    if (next == UNKNOWN) {
      first(message, receivedNanos, nowNanos);
    } else if (sequence == next) {
      apply(message, receivedNanos, nowNanos);
    } else if (sequence > next) {
      gap(message, receivedNanos, nowNanos);
    } else if (isRemembered(message) || isOvertaken(sequence)) {
      listener.onDuplicate(worker());
    } else {
      restarted();
      first(message, receivedNanos, nowNanos);
    }
    // One that is held now comes again.
    published = replay == Replay.NONE ? Math.max(published, sequence) : published;
  }

  private void first(KvMessage.Published message, long receivedNanos, long nowNanos) {
    if (message.sequence() == 0) {
      next = 0;
      isComplete = true;
      apply(message, receivedNanos, nowNanos);
    } else if (canReplay && !mustRetry) {
      hold(message, receivedNanos);
      startReplay(Replay.WHOLE, 0, nowNanos);
    } else {
      next = message.sequence();
      isComplete = false;
      apply(message, receivedNanos, nowNanos);
    }
  }

  private void gap(KvMessage.Published message, long receivedNanos, long nowNanos) {
    listener.onGap(worker(), next, message.sequence());
    if (canReplay && gapReplays < config.replayAttempts()) {
      gapReplays++;
      hold(message, receivedNanos);
      startReplay(Replay.GAP, next, nowNanos);
    } else {
      giveUpContinuity(message.sequence());
      apply(message, receivedNanos, nowNanos);
    }
  }

  /** What was lost stays lost: removals may be among it, so nothing from before can be believed. */
  private void giveUpContinuity(long continueAt) {
    blocks.clear();
    isComplete = false;
    next = continueAt;
  }

  private void restarted() {
    listener.onRestart(worker());
    blocks.restart();
    next = UNKNOWN;
    published = UNKNOWN;
    isComplete = false;
    mustRetry = false;
    Arrays.fill(rememberedSequences, UNKNOWN);
  }

  private void apply(KvMessage.Published message, long receivedNanos, long nowNanos) {
    switch (decoder.decode(message.payload())) {
      case KvDecodeError error -> {
        // Removals may have been in it, so it is a gap. The publisher's ring has the same bytes:
        // nothing to gain from a replay.
        listener.onMalformed(worker(), error.kind());
        giveUpContinuity(message.sequence());
      }
      case KvDecode.Decoded(KvBatch batch) -> {
        blocks.apply(batch);
        for (KvEvent event : batch.events()) {
          isComplete |= event instanceof KvEvent.AllBlocksCleared;
        }
        listener.onBatch(worker(), batch, nowNanos - receivedNanos);
      }
    }
    remember(message);
    next = message.sequence() + 1;
    gapReplays = replay == Replay.NONE ? 0 : gapReplays;
  }

  private void hold(KvMessage.Published message, long receivedNanos) {
    int size = heldSize(message);
    if (heldBytes + size <= config.maxHeldBytes()) {
      held.add(new Held(message, receivedNanos));
      heldBytes += size;
    }
  }

  /** Memory of a held message: one without payload takes some too. */
  private static int heldSize(KvMessage.Published message) {
    return HELD_BYTES + message.topic().length() + message.payload().length;
  }

  private void probe(long nowNanos) {
    mustProbe = false;
    if (next > 0) {
      startReplay(Replay.PROBE, next - 1, nowNanos);
    } else {
      startReplay(Replay.WHOLE, 0, nowNanos);
    }
  }

  private void startReplay(Replay kind, long from, long nowNanos) {
    replay = kind;
    replayAttempt = 1;
    replayBatches = 0;
    hasReplayFirst = false;
    replayLostSome = false;
    replayBroughtNews = false;
    mustRetry = false;
    ask(from, nowNanos);
  }

  private void ask(long from, long nowNanos) {
    replayProgressNanos = nowNanos;
    replayApplied = 0;
    replayId++;
    wishes.add(new AskReplay(from, replayId));
    listener.onReplayAsked(worker(), from);
  }

  private void replayed(KvMessage.Published message, long nowNanos) {
    replayBatches++;
    long sequence = message.sequence();
    if (!hasReplayFirst) {
      hasReplayFirst = true;
      if (isOtherPublisher(message)) {
        restarted();
        startReplay(Replay.WHOLE, 0, nowNanos);
        return;
      }
      if (replay == Replay.WHOLE) {
        blocks.clear();
        next = 0;
        isComplete = true;
      }
      if (sequence > next) {
        // The ring no longer has what was asked for.
        replayLostSome = true;
        giveUpContinuity(sequence);
      }
    } else if (sequence > next) {
      // A hole: the ROUTER drops answers when we read too slowly. Ask for the rest while that
      // brings us forward.
      if (replayApplied > 0 || replayAttempt < config.replayAttempts()) {
        replayAttempt = replayApplied > 0 ? 1 : replayAttempt + 1;
        ask(next, nowNanos);
        return;
      }
      replayLostSome = true;
      giveUpContinuity(sequence);
    }
    if (sequence == next) {
      replayApplied++;
      replayBroughtNews = true;
      apply(message, nowNanos, nowNanos);
    }
  }

  /**
   * A probe asks for the last message that we know; one with that number and other content is
   * somebody else's.
   */
  private boolean isOtherPublisher(KvMessage.Published message) {
    return replay == Replay.PROBE && message.sequence() < next && !isRemembered(message);
  }

  private void replayEnded(long nowNanos) {
    Replay kind = replay;
    replay = Replay.NONE;
    if (!hasReplayFirst) {
      switch (kind) {
        case WHOLE -> {
          // Nothing was ever published: whatever comes next is the beginning.
          blocks.clear();
          next = 0;
          isComplete = true;
        }
        case PROBE -> {
          // The publisher's newest message is older than ours: another publisher.
          restarted();
          startReplay(Replay.WHOLE, 0, nowNanos);
          return;
        }
        case GAP -> replayLostSome = true;
        case NONE -> {}
      }
    }
    listener.onReplayEnded(
        worker(), replayLostSome ? ReplayEnd.WRAPPED : ReplayEnd.COMPLETE, replayBatches);
    if (kind == Replay.PROBE && replayBroughtNews && held.isEmpty()) {
      // These should have come by themselves.
      wishReconnect(nowNanos);
    }
    isSilent = false;
    release(nowNanos);
  }

  private void replayStuck(long nowNanos) {
    if (replayAttempt < config.replayAttempts()) {
      replayAttempt++;
      boolean isWholeFromStart = replay == Replay.WHOLE && !hasReplayFirst;
      boolean isUnprobed = replay == Replay.PROBE && !hasReplayFirst;
      ask(isWholeFromStart ? 0 : isUnprobed ? next - 1 : next, nowNanos);
      return;
    }
    Replay kind = replay;
    replay = Replay.NONE;
    mustRetry = true;
    failedNanos = nowNanos;
    listener.onReplayEnded(worker(), ReplayEnd.FAILED, replayBatches);
    switch (kind) {
      case PROBE -> {
        isSilent = true;
        wishReconnect(nowNanos);
      }
      case GAP -> {
        blocks.clear();
        isComplete = false;
        next = UNKNOWN;
      }
      // Where messages had been followed before, a gap or a restart meanwhile is still to be seen.
      case WHOLE -> isComplete = false;
      case NONE -> {}
    }
    release(nowNanos);
  }

  /** Applies what came during the replay; stops when that leads to another one. */
  private void release(long nowNanos) {
    int waiting = held.size();
    for (int i = 0; i < waiting && replay == Replay.NONE; i++) {
      Held first = held.removeFirst();
      heldBytes -= heldSize(first.message());
      live(first.message(), first.receivedNanos(), nowNanos);
      if (replay != Replay.NONE) {
        // live() put it at the end of the queue, but it is the oldest.
        Held again = held.pollLast();
        if (again != null) {
          held.addFirst(again);
        }
      }
    }
    if (mustProbe && replay == Replay.NONE) {
      probe(nowNanos);
    }
  }

  /** Not again and again: where a new connection did not help, the next one will not either. */
  private void wishReconnect(long nowNanos) {
    if (!hasReconnected || nowNanos - reconnectedNanos > config.replayRetry().toNanos()) {
      hasReconnected = true;
      reconnectedNanos = nowNanos;
      wishes.add(new Reconnect());
    }
  }

  private void showState() {
    KvViewState to;
    if (isSilent) {
      to = KvViewState.SILENT;
    } else if (replay == Replay.GAP) {
      to = KvViewState.GAPPED;
    } else if (replay == Replay.WHOLE || next == UNKNOWN) {
      to = KvViewState.SYNCING;
    } else {
      to = isComplete ? KvViewState.LIVE : KvViewState.PARTIAL;
    }
    KvViewState from = blocks.state();
    if (from != to) {
      blocks.setState(to);
      listener.onState(worker(), from, to);
    }
  }

  private void remember(KvMessage.Published message) {
    int at = (int) (message.sequence() & (REMEMBERED - 1));
    rememberedSequences[at] = message.sequence();
    rememberedPayloads[at] = fingerprint(message.payload());
  }

  private boolean isRemembered(KvMessage.Published message) {
    int at = (int) (message.sequence() & (REMEMBERED - 1));
    return rememberedSequences[at] == message.sequence()
        && rememberedPayloads[at] == fingerprint(message.payload());
  }

  /**
   * Whether the message is one that a replay brought before, longer ago than payloads are
   * remembered: the publisher goes on from what it sent last.
   */
  private boolean isOvertaken(long sequence) {
    return sequence > Math.max(published, 0)
        && rememberedSequences[(int) (sequence & (REMEMBERED - 1))] != sequence;
  }

  private static final VarHandle LONGS =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private static long fingerprint(byte[] payload) {
    long state = payload.length;
    int at = 0;
    for (; at + 8 <= payload.length; at += 8) {
      state = KeyChain.mum(state ^ (long) LONGS.get(payload, at), 0x9E3779B97F4A7C15L);
    }
    for (; at < payload.length; at++) {
      state = KeyChain.mum(state ^ payload[at], 0x9E3779B97F4A7C15L);
    }
    return state;
  }
}
