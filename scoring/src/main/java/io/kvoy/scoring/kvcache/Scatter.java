// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.security.SecureRandom;

/**
 * Decides where a 64-bit name lies in a table, in a way that nobody outside can foresee.
 *
 * <p>The names come from workers (engine hashes) or from the prompts of clients (own keys), and
 * both could choose them so that all fall into one place. So tables lay a name out by its image
 * under this bijection, whose factors are secret. The names themselves stay as they are: they mean
 * the same in every process, and {@code kvoyctl} shows the same in every run.
 *
 * <p>Not a cryptographic function; it need not be, since nobody outside sees an image. A table must
 * nevertheless stay within its memory when the factors are known.
 *
 * @param mask added to the name bit by bit
 * @param first odd
 * @param second odd
 */
record Scatter(long mask, long first, long second) {

  /** The one of this process. */
  static final Scatter SECRET = random();

  Scatter {
    if ((first & second & 1) == 0) {
      throw new IllegalArgumentException("an even factor gives two names one place");
    }
  }

  private static Scatter random() {
    SecureRandom random = new SecureRandom();
    return new Scatter(random.nextLong(), random.nextLong() | 1, random.nextLong() | 1);
  }

  /** The name's image; different names have different ones, and the upper bits are the best. */
  long of(long name) {
    long mixed = (name ^ mask) * first;
    return (mixed ^ mixed >>> 32) * second;
  }
}
