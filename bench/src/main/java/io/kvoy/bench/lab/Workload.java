// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.Random;
import org.jspecify.annotations.Nullable;

/**
 * Makes the requests of a run: either so many users who wait for their answer, or so many a second.
 */
interface Workload {
  /** Users that have one request open at a time; 0 for an open workload. */
  int users();

  /** Requests per second of an open workload at an instant. */
  double ratePerSecond(double nowMillis);

  /**
   * The next request.
   *
   * @param user which user asks, 0 for an open workload
   * @param previous that user's last request, null at first
   */
  SimRequest next(int user, @Nullable SimRequest previous, Random random);

  /** Pause of a user between an answer and the next request. */
  default double thinkMillis(Random random) {
    return 0;
  }
}
