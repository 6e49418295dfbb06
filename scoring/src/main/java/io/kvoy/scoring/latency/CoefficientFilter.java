// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import io.kvoy.scoring.latency.Prediction.Source;
import java.util.Arrays;

/**
 * Kalman filter over the five speeds of one worker: each lesson is a linear measurement of them.
 *
 * <ul>
 *   <li><b>Start</b>: mean and spread of the pool (or the prior), so the first lessons move what is
 *       uncertain and leave what is physics.
 *   <li><b>Forgetting</b>: the spread grows a little with every lesson, up to the start's, so
 *       directions that are not observed do not blow up (no wind-up).
 *   <li><b>Outliers</b>: a lesson further off than three standard deviations is weighted down in
 *       proportion (Huber), so a stuck client or a lost cache entry moves little.
 *   <li><b>Change</b>: when errors in one direction persist (a throttled GPU, another model), the
 *       spread is opened again and a few lessons suffice.
 *   <li><b>Waits for room</b> say nothing about speed and are not shown to the filter; they correct
 *       only how much of the reckoned wait really comes ({@link #learnRoom}).
 *   <li><b>Bounds</b>: coefficients are cut to what physics allows after every step; a number that
 *       is not finite resets the filter to its start.
 * </ul>
 *
 * Not thread-safe: the owner serialises updates and publishes {@link #coefficients}.
 */
final class CoefficientFilter {
  private static final int N = 5;
  private static final int FIXED = 0;
  private static final int TOKEN = 1;
  private static final int QUEUE_EXTRA = 2;
  private static final int ATTENTION = 3;
  private static final int DECODE = 4;

  /** Lower and upper bounds: from ten times the fastest to a CPU worker. */
  private static final double[] MIN = {0.2, 1e-4, -5, 0, 0};

  private static final double[] MAX = {5_000, 50, 50, 1, 200};

  /**
   * What 1 000 tokens of context add to a token, as a share of the token itself: 4 · layers · width
   * · 1 000 ÷ (2 · parameters), 3 % for an 8B model of 32 layers and width 4 096, less for larger
   * ones. Where all prompts are alike the two cannot be told apart, so physics has to.
   */
  private static final double ATTENTION_SHARE = 0.03;

  private static final double MAX_ATTENTION_SHARE = 0.1;

  /** Standard deviations beyond which a lesson counts less. */
  private static final double HUBER = 3;

  /** Smoothed normalised error beyond which errors are taken for a change, not for noise. */
  private static final double CHANGE = 1.2;

  /** Lessons for that smoothing. */
  private static final double CHANGE_WEIGHT = 1.0 / 8;

  /** Shorter reckoned waits are too uncertain to learn from. */
  private static final double MIN_ROOM_MILLIS = 50;

  /** Weight of one wait for room. */
  private static final double ROOM_WEIGHT = 1.0 / 16;

  /** The reckoning may be short by this factor. */
  private static final double MAX_ROOM_SHARE = 8;

  private final LearningSettings settings;
  private final double[] start;
  private final double[] startVariance;
  private final double[] mean;
  private final double[][] cov = new double[N][N];
  private final double[] x = new double[N];
  private final double[] gain = new double[N];
  private double capacityShare;
  private double roomNoise;
  private double changeScore;
  private double noiseShare;
  private long lessons;

  /** Starts at the given mean; the spread is relative to it. */
  CoefficientFilter(LearningSettings settings, Coefficients from) {
    this.settings = settings;
    this.noiseShare = from.noiseShare();
    this.capacityShare = from.capacityShare();
    this.roomNoise = from.roomNoise();
    this.start =
        new double[] {
          from.fixedMillis(),
          from.perTokenMillis(),
          from.queueExtraMillis(),
          from.perAttentionMillis(),
          from.perDecodeStepMillis()
        };
    // The rate may be off by a factor of a few; the extra of queued tokens only by a part of it.
    double rateSpread = Math.max(start[TOKEN], 0.02) * 1.5;
    this.startVariance =
        new double[] {
          square(Math.max(start[FIXED], 20)),
          square(rateSpread),
          square(rateSpread * 0.2),
          square(ATTENTION_SHARE * rateSpread),
          square(Math.max(start[DECODE], 0.3))
        };
    this.mean = start.clone();
    open();
  }

  private void open() {
    for (int i = 0; i < N; i++) {
      Arrays.fill(cov[i], 0);
      cov[i][i] = startVariance[i];
    }
  }

  /** Learns from one observation, a positive finite number. */
  void learn(Features f, double actualMillis) {
    x[FIXED] = 1;
    x[TOKEN] = f.uncachedTokens() + f.aheadTokens();
    x[QUEUE_EXTRA] = f.aheadTokens();
    x[ATTENTION] = f.attention();
    x[DECODE] = f.decodeSteps();
    double predicted = dot(mean, x) + f.adapterMillis();
    double error = actualMillis - predicted;

    forget();
    double noise =
        square(
            settings.noiseFloorMillis()
                + settings.noiseShare()
                    * Math.max(predicted, Math.min(actualMillis, 3 * predicted)));
    double spread = 0;
    for (int i = 0; i < N; i++) {
      gain[i] = dot(cov[i], x);
      spread += gain[i] * x[i];
    }
    double deviation = Math.sqrt(spread + noise);
    double normalised = error / deviation;
    changeScore += CHANGE_WEIGHT * (Math.clamp(normalised, -4, 4) - changeScore);
    if (lessons > 8 && Math.abs(changeScore) > CHANGE) {
      reopen();
      changeScore = 0;
      for (int i = 0; i < N; i++) {
        gain[i] = dot(cov[i], x);
      }
      spread = dot(gain, x);
      deviation = Math.sqrt(spread + noise);
      normalised = error / deviation;
    }
    if (Math.abs(normalised) > HUBER) {
      noise = (spread + noise) * Math.abs(normalised) / HUBER - spread;
    }
    double total = spread + noise;
    for (int i = 0; i < N; i++) {
      mean[i] += gain[i] / total * error;
    }
    for (int i = 0; i < N; i++) {
      for (int j = i; j < N; j++) {
        double c = cov[i][j] - gain[i] * gain[j] / total;
        cov[i][j] = c;
        cov[j][i] = c;
      }
    }
    bound();
    double share = Math.min(2, Math.abs(error) / Math.max(1, actualMillis));
    noiseShare += (share - noiseShare) / Math.min(32, lessons + 2);
    lessons++;
  }

  /** Learns from a request that waited for room how long such waits are. */
  void learnRoom(Features f, double actualMillis) {
    if (f.capacityMillis() < MIN_ROOM_MILLIS) {
      return;
    }
    x[FIXED] = 1;
    x[TOKEN] = f.uncachedTokens() + f.aheadTokens();
    x[QUEUE_EXTRA] = f.aheadTokens();
    x[ATTENTION] = f.attention();
    x[DECODE] = f.decodeSteps();
    double ratio = (actualMillis - dot(mean, x) - f.adapterMillis()) / f.capacityMillis();
    double share = Math.clamp(ratio, 0, MAX_ROOM_SHARE);
    roomNoise += ROOM_WEIGHT * (Math.abs(share - capacityShare) - roomNoise);
    capacityShare += ROOM_WEIGHT * (share - capacityShare);
  }

  /** Lets the spread grow by 1/memory, not beyond the start's. */
  private void forget() {
    double growth = 1 + 1.0 / settings.memoryLessons();
    for (int i = 0; i < N; i++) {
      for (int j = 0; j < N; j++) {
        cov[i][j] *= growth;
      }
    }
    for (int i = 0; i < N; i++) {
      if (cov[i][i] > startVariance[i]) {
        double scale = Math.sqrt(startVariance[i] / cov[i][i]);
        for (int j = 0; j < N; j++) {
          cov[i][j] *= scale;
          cov[j][i] *= scale;
        }
      }
    }
  }

  /** Opens the spread to a quarter of the present size of each coefficient, or the start's. */
  private void reopen() {
    for (int i = 0; i < N; i++) {
      cov[i][i] = Math.max(cov[i][i], Math.min(startVariance[i], square(0.5 * mean[i])));
    }
  }

  private void bound() {
    for (int i = 0; i < N; i++) {
      if (!Double.isFinite(mean[i]) || !Double.isFinite(cov[i][i]) || cov[i][i] < 0) {
        System.arraycopy(start, 0, mean, 0, N);
        open();
        return;
      }
      mean[i] = Math.clamp(mean[i], MIN[i], MAX[i]);
    }
    mean[ATTENTION] = Math.min(mean[ATTENTION], MAX_ATTENTION_SHARE * mean[TOKEN]);
    // A queued token costs between a third and three times an own one.
    mean[QUEUE_EXTRA] = Math.clamp(mean[QUEUE_EXTRA], -0.67 * mean[TOKEN], 2 * mean[TOKEN]);
  }

  Coefficients coefficients(Source source) {
    return new Coefficients(
        mean[FIXED],
        mean[TOKEN],
        mean[QUEUE_EXTRA],
        mean[ATTENTION],
        mean[DECODE],
        capacityShare,
        roomNoise,
        noiseShare,
        source);
  }

  long lessons() {
    return lessons;
  }

  private static double dot(double[] a, double[] b) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
      sum += a[i] * b[i];
    }
    return sum;
  }

  private static double square(double v) {
    return v * v;
  }
}
