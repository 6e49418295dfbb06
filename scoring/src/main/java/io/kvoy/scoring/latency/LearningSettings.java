// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

/**
 * Where learning starts and how fast it goes.
 *
 * @param prior coefficients before any experience
 * @param memoryLessons about how many lessons are remembered; fewer adapts faster and is noisier
 * @param noiseShare expected relative error of one observation
 * @param noiseFloorMillis expected absolute error of a short observation
 * @param workerAfterLessons lessons after which a worker's own coefficients are called its own
 * @param freshSeconds age of a worker's latest lesson up to which its coefficients stand
 * @param halfLifeSeconds after which half of what sets them apart from the pool's is gone
 */
public record LearningSettings(
    Coefficients prior,
    int memoryLessons,
    double noiseShare,
    double noiseFloorMillis,
    int workerAfterLessons,
    double freshSeconds,
    double halfLifeSeconds) {

  /**
   * Starts from a mid-size model on a current data-centre GPU: 10 000 prompt tokens a second; the
   * first lessons outweigh it at once.
   */
  public static final LearningSettings DEFAULTS =
      new LearningSettings(
          new Coefficients(15, 0.1, 0, 0.002, 0.3, 1, 0.5, 0.3, Prediction.Source.PRIOR),
          400,
          0.1,
          3,
          8,
          30,
          60);
}
