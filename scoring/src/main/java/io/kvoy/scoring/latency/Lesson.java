// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import io.kvoy.scoring.fleet.Worker;

/**
 * One observed time to first token beside what was predicted.
 *
 * @param worker who served
 * @param features what was known at the pick
 * @param predictedMillis what was predicted then
 * @param actualMillis what it took, from pick to first token
 * @param waitedForRoom whether the worker was full meanwhile: counts for the error, teaches nothing
 *     about the worker's speed
 */
public record Lesson(
    Worker worker,
    Features features,
    double predictedMillis,
    double actualMillis,
    boolean waitedForRoom) {

  /** Error as a share of what it took: 0.1 = 10 %; positive when it took longer than predicted. */
  public double errorShare() {
    return actualMillis > 0 ? (actualMillis - predictedMillis) / actualMillis : 0;
  }
}
