// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import java.util.Arrays;

/** Signed errors of the latest lessons of one worker. Not thread-safe: the owner serialises. */
final class ErrorWindow {
  /** Lessons looked at for the figures. */
  private static final int SIZE = 200;

  /** Lessons looked at for drift: few, so that it shows within a minute. */
  private static final int DRIFT_SIZE = 32;

  /** Median absolute error over these lessons that means the model is wrong. */
  private static final double DRIFT_SHARE = 0.35;

  private final float[] errors = new float[SIZE];
  private long count;

  void add(double errorShare) {
    errors[(int) (count++ % SIZE)] = (float) errorShare;
  }

  ErrorStats stats() {
    int n = (int) Math.min(count, SIZE);
    if (n == 0) {
      return ErrorStats.NONE;
    }
    float[] signed = Arrays.copyOf(errors, n);
    float[] absolute = new float[n];
    for (int i = 0; i < n; i++) {
      absolute[i] = Math.abs(signed[i]);
    }
    Arrays.sort(signed);
    Arrays.sort(absolute);
    return new ErrorStats(
        count, absolute[n / 2], absolute[Math.min(n - 1, n * 9 / 10)], signed[n / 2], isDrifting());
  }

  boolean isDrifting() {
    if (count < DRIFT_SIZE) {
      return false;
    }
    float[] latest = new float[DRIFT_SIZE];
    for (int i = 0; i < DRIFT_SIZE; i++) {
      latest[i] = Math.abs(errors[(int) ((count - 1 - i) % SIZE)]);
    }
    Arrays.sort(latest);
    return latest[DRIFT_SIZE / 2] > DRIFT_SHARE;
  }
}
