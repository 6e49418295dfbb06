// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.Random;
import org.jspecify.annotations.Nullable;

/** The workloads of the lab. */
final class Workloads {
  private Workloads() {}

  /** Identities that no shared prefix uses. */
  private static final long OWN = 1L << 40;

  /**
   * Many prefixes (documents, system prompts), each with many short questions.
   *
   * @param users open at once, or 0 with a rate
   * @param skew 0 = all prefixes alike, 1 = Zipf
   */
  record SharedPrefix(
      int users,
      double rate,
      int prefixes,
      int prefixTokens,
      int questionTokens,
      int outputTokens,
      double skew)
      implements Workload {
    @Override
    public double ratePerSecond(double nowMillis) {
      return rate;
    }

    @Override
    public SimRequest next(int user, @Nullable SimRequest previous, Random random) {
      int prefix = zipf(random, prefixes, skew);
      int question = around(random, questionTokens);
      int output = around(random, outputTokens);
      int prompt = prefixTokens + question;
      long own = OWN + random.nextLong(OWN);
      return new SimRequest(
          SimRequest.keys(prefix, prefixTokens, own, prompt + output), prompt, output, -1);
    }
  }

  /** Users who talk: each turn sends the whole conversation so far. */
  record MultiTurn(
      int users, int turns, int systemTokens, int turnTokens, int outputTokens, double thinkMillis)
      implements Workload {
    @Override
    public double ratePerSecond(double nowMillis) {
      return 0;
    }

    @Override
    public SimRequest next(int user, @Nullable SimRequest previous, Random random) {
      int history = systemTokens;
      int session = random.nextInt(Integer.MAX_VALUE);
      int longest = systemTokens + turns * 2 * (turnTokens + outputTokens);
      if (previous != null && previous.promptTokens + previous.outputTokens < longest / 2) {
        history = previous.promptTokens + previous.outputTokens;
        session = previous.session;
      }
      int prompt = history + around(random, turnTokens);
      int output = around(random, outputTokens);
      return new SimRequest(
          SimRequest.keys(1, systemTokens, OWN + session, prompt + output),
          prompt,
          output,
          session);
    }

    @Override
    public double thinkMillis(Random random) {
      return -Math.log(1 - random.nextDouble()) * thinkMillis;
    }
  }

  /** Nothing shared. */
  record Unique(int users, double rate, int promptTokens, int outputTokens) implements Workload {
    @Override
    public double ratePerSecond(double nowMillis) {
      return rate;
    }

    @Override
    public SimRequest next(int user, @Nullable SimRequest previous, Random random) {
      int prompt = around(random, promptTokens);
      int output = around(random, outputTokens);
      return new SimRequest(
          SimRequest.keys(0, 0, OWN + random.nextLong(OWN), prompt + output), prompt, output, -1);
    }
  }

  /** A quiet mix, and every so often a burst of requests that share a prefix nobody has seen. */
  record Burst(
      double rate, int promptTokens, int outputTokens, int burstPrefixTokens, double burstRate)
      implements Workload {
    private static final double PERIOD_MILLIS = 20_000;
    private static final double BURST_MILLIS = 500;

    @Override
    public int users() {
      return 0;
    }

    private static boolean inBurst(double nowMillis) {
      return nowMillis % PERIOD_MILLIS < BURST_MILLIS;
    }

    @Override
    public double ratePerSecond(double nowMillis) {
      return inBurst(nowMillis) ? burstRate : rate;
    }

    @Override
    public SimRequest next(int user, @Nullable SimRequest previous, Random random) {
      throw new UnsupportedOperationException("asked with the time");
    }

    SimRequest next(double nowMillis, Random random) {
      int output = around(random, outputTokens);
      int prompt = around(random, promptTokens);
      long own = OWN + random.nextLong(OWN);
      if (!inBurst(nowMillis)) {
        return new SimRequest(SimRequest.keys(0, 0, own, prompt + output), prompt, output, -1);
      }
      long burst = 1000 + (long) (nowMillis / PERIOD_MILLIS);
      prompt = burstPrefixTokens + prompt / 4;
      return new SimRequest(
          SimRequest.keys(burst, burstPrefixTokens, own, prompt + output), prompt, output, -1);
    }
  }

  /** Uniform within a half and one and a half times. */
  private static int around(Random random, int tokens) {
    return Math.max(1, (int) (tokens * (0.5 + random.nextDouble())));
  }

  private static int zipf(Random random, int n, double skew) {
    if (skew == 0) {
      return random.nextInt(n);
    }
    double total = 0;
    for (int i = 1; i <= n; i++) {
      total += 1 / Math.pow(i, skew);
    }
    double point = random.nextDouble() * total;
    for (int i = 1; i <= n; i++) {
      point -= 1 / Math.pow(i, skew);
      if (point < 0) {
        return i - 1;
      }
    }
    return n - 1;
  }
}
