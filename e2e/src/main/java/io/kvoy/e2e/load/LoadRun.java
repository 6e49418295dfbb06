// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/**
 * Sends conversations through a client, a fixed number at once, turns of one conversation in order.
 */
public final class LoadRun {
  /**
   * One turn as it went.
   *
   * @param conversation index in the given list
   * @param turn from 1
   */
  public record Turn(int conversation, int turn, String label, ChatAnswer answer) {}

  private LoadRun() {}

  /**
   * Runs all conversations to their end.
   *
   * @param concurrency conversations at once, at least 1; they start in list order
   * @param onTurn told of each finished turn, from any thread
   * @return all turns in order of their start within each conversation
   */
  public static List<Turn> run(
      ChatClient client, List<Conversation> conversations, int concurrency, Consumer<Turn> onTurn)
      throws InterruptedException {
    Semaphore places = new Semaphore(concurrency);
    List<Turn> turns = Collections.synchronizedList(new ArrayList<>());
    try (ExecutorService users = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<?>> running = new ArrayList<>();
      for (int c = 0; c < conversations.size(); c++) {
        int index = c;
        places.acquire();
        running.add(
            users.submit(
                () -> {
                  try {
                    converse(client, conversations.get(index), index, turns, onTurn);
                  } finally {
                    places.release();
                  }
                }));
      }
      for (Future<?> one : running) {
        try {
          one.get();
        } catch (ExecutionException e) {
          throw new IllegalStateException("a load client failed", e.getCause());
        }
      }
    }
    return List.copyOf(turns);
  }

  private static void converse(
      ChatClient client,
      Conversation conversation,
      int index,
      List<Turn> turns,
      Consumer<Turn> onTurn) {
    List<ChatMessage> messages = new ArrayList<>();
    if (!conversation.system().isEmpty()) {
      messages.add(ChatMessage.system(conversation.system()));
    }
    for (int t = 0; t < conversation.userTurns().size(); t++) {
      messages.add(ChatMessage.user(conversation.userTurns().get(t)));
      ChatAnswer answer = client.chat(messages, conversation.maxTokens());
      Turn turn = new Turn(index, t + 1, conversation.label(), answer);
      turns.add(turn);
      onTurn.accept(turn);
      messages.add(ChatMessage.assistant(answer.text()));
    }
  }

  /** The {@code q}-quantile of first-token times of the turns that succeeded; NaN when none did. */
  public static double ttftQuantile(List<Turn> turns, double q) {
    double[] sorted =
        turns.stream()
            .map(Turn::answer)
            .filter(ChatAnswer::ok)
            .mapToDouble(ChatAnswer::ttftMillis)
            .sorted()
            .toArray();
    return sorted.length == 0
        ? Double.NaN
        : sorted[(int) Math.min(sorted.length - 1, Math.round(q * (sorted.length - 1)))];
  }

  /** Share of prompt tokens that came from a cache, 0..1; NaN when no usage was reported. */
  public static double hitShare(List<Turn> turns) {
    long prompt = 0;
    long cached = 0;
    for (Turn turn : turns) {
      if (turn.answer().promptTokens() > 0) {
        prompt += turn.answer().promptTokens();
        cached += Math.max(0, turn.answer().cachedTokens());
      }
    }
    return prompt == 0 ? Double.NaN : (double) cached / prompt;
  }

  /** Small requests one after the other until it is over, each counted. */
  public static void untilOver(
      ChatClient client,
      Duration pause,
      AtomicBoolean isOver,
      AtomicInteger served,
      AtomicInteger failed) {
    Workloads texts = new Workloads(6);
    while (!isOver.get()) {
      ChatAnswer answer = client.chat(List.of(ChatMessage.user(texts.text(30))), 1);
      (answer.ok() ? served : failed).incrementAndGet();
      LockSupport.parkNanos(pause.toNanos());
    }
  }
}
