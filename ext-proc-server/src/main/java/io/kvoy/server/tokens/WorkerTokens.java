// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.Prompt;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.server.config.ModelPool.WorkerTokenizer;
import io.kvoy.server.tokens.WorkerAnswer.Why;
import io.kvoy.tokenizer.Tokenization;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The tokens of one pool's prompts as its workers tell them. What a worker says of its own tokens
 * is exact by definition; where it says nothing in time there are no tokens and the request is
 * routed by load.
 *
 * <p>{@link #tokenize} returns at once. Each question is asked on a virtual thread; the workers of
 * the pool take turns. Questions beyond the limit are not queued, for they would come too late.
 * Answers are remembered for a while, so that a prompt sent again costs no question.
 */
public final class WorkerTokens {
  /** Answers kept, however short. */
  private static final int MAX_REMEMBERED = 1 << 14;

  /** Ids kept of earlier answers; four bytes each. */
  private static final int MAX_REMEMBERED_IDS = 1 << 20;

  /** A worker started anew with another template must not be answered for. */
  private static final long REMEMBER_NANOS = Duration.ofMinutes(1).toNanos();

  private static final int CHARS_PER_TOKEN = 4;

  private final String pool;
  private final WorkerTokenizer settings;
  private final Supplier<Fleet> fleet;
  private final AskWorker ask;
  private final LongSupplier nanoClock;
  private final Semaphore questions;
  private final AtomicInteger turn = new AtomicInteger();
  private final Memory memory = new Memory();

  public WorkerTokens(
      String pool,
      WorkerTokenizer settings,
      Supplier<Fleet> fleet,
      AskWorker ask,
      LongSupplier nanoClock) {
    this.pool = pool;
    this.settings = settings;
    this.fleet = fleet;
    this.ask = ask;
    this.nanoClock = nanoClock;
    this.questions = new Semaphore(settings.concurrency());
  }

  /** As configured; a changed configuration makes a new one. */
  public WorkerTokenizer settings() {
    return settings;
  }

  /** Memory that the remembered answers take, by estimate. */
  public long memoryBytes() {
    return memory.bytes();
  }

  /**
   * Tells the tokens of a request, now or later.
   *
   * @param body the client's body, decoded
   * @param done called exactly once, on this thread or another; must not block
   */
  public void tokenize(InferenceRequest request, byte[] body, Consumer<? super Tokenization> done) {
    switch (request.prompt()) {
      case Prompt.Tokens(List<int[]> prompts) -> {
        Tokenization whole = new Tokenization.Exact(prompts);
        Truncation cut = request.truncation();
        done.accept(cut == null ? whole : whole.truncated(cut, 0, 0));
        return;
      }
      case Prompt.Unreadable(String reason, int chars, Prompt.Chat _) -> {
        done.accept(new Tokenization.Estimated(Math.ceilDiv(chars, CHARS_PER_TOKEN), reason));
        return;
      }
      case Prompt.Chat _, Prompt.Texts _ -> {}
    }
    if (request.truncation() != null) {
      // Which of a worker's answers are cut as its engine cuts depends on its version.
      done.accept(new Tokenization.Unavailable("truncation"));
      return;
    }
    Key key = Key.of(request, body);
    Tokenization known = memory.get(key, nanoClock.getAsLong());
    if (known != null) {
      done.accept(known);
      return;
    }
    Worker worker = next();
    if (worker == null) {
      done.accept(unavailable(Why.NO_WORKER));
      return;
    }
    if (!questions.tryAcquire()) {
      done.accept(unavailable(Why.BUSY));
      return;
    }
    var _ =
        Thread.ofVirtual()
            .name("kvoy-ask-" + worker.name())
            .start(() -> done.accept(asked(worker, request, body, key)));
  }

  private Tokenization asked(Worker worker, InferenceRequest request, byte[] body, Key key) {
    try {
      return switch (ask.ask(worker.endpoint(), request, body, settings.timeout())) {
        case WorkerAnswer.Ids(List<int[]> prompts) -> {
          Tokenization.Exact exact = new Tokenization.Exact(prompts);
          memory.put(key, exact, nanoClock.getAsLong());
          yield exact;
        }
        case WorkerAnswer.None(Why why) -> unavailable(why);
      };
    } catch (RuntimeException _) {
      // Whoever waits must be answered; the message of a bug may quote the prompt.
      return unavailable(Why.ERROR);
    } finally {
      questions.release();
    }
  }

  private static Tokenization unavailable(Why why) {
    return new Tokenization.Unavailable(why.word());
  }

  private @Nullable Worker next() {
    Fleet present = fleet.get();
    List<Worker> workers = present.workers(pool);
    int start = turn.getAndIncrement();
    for (int i = 0; i < workers.size(); i++) {
      Worker worker = workers.get(Math.floorMod(start + i, workers.size()));
      if (present.health(worker).isReady()) {
        return worker;
      }
    }
    return null;
  }

  /** Names a question without keeping it: 128 bits of a SHA-256. */
  private record Key(long high, long low) {
    static Key of(InferenceRequest request, byte[] body) {
      try {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        digest.update(request.api().name().getBytes(StandardCharsets.US_ASCII));
        List<byte[]> bodies = WorkerQuestion.bodies(request);
        // What only a render endpoint knows is named by the whole body.
        for (byte[] part : bodies.isEmpty() ? List.of(body) : bodies) {
          digest.update(ByteBuffer.allocate(Integer.BYTES).putInt(0, part.length));
          digest.update(part);
        }
        ByteBuffer first = ByteBuffer.wrap(digest.digest());
        return new Key(first.getLong(), first.getLong());
      } catch (NoSuchAlgorithmException e) {
        throw new IllegalStateException("every JDK has SHA-256", e);
      }
    }
  }

  /** Answers by age; guarded by itself, held for a look-up in a map. */
  private static final class Memory {
    private record Entry(Tokenization.Exact tokens, long atNanos) {}

    private final Map<Key, Entry> entries = new LinkedHashMap<>(64, 0.75f, true);
    private int ids;

    synchronized @Nullable Tokenization get(Key key, long now) {
      Entry entry = entries.get(key);
      return entry == null || now - entry.atNanos() > REMEMBER_NANOS ? null : entry.tokens();
    }

    synchronized void put(Key key, Tokenization.Exact tokens, long now) {
      if (tokens.totalTokens() > MAX_REMEMBERED_IDS / 8) {
        return;
      }
      Entry before = entries.put(key, new Entry(tokens, now));
      ids += tokens.totalTokens() - (before == null ? 0 : before.tokens().totalTokens());
      var oldest = entries.entrySet().iterator();
      while ((ids > MAX_REMEMBERED_IDS || entries.size() > MAX_REMEMBERED) && oldest.hasNext()) {
        ids -= oldest.next().getValue().tokens().totalTokens();
        oldest.remove();
      }
    }

    synchronized long bytes() {
      return 4L * ids + 200L * entries.size();
    }
  }
}
