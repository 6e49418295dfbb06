// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/** Names chosen by somebody who knows where a {@link Scatter} puts them. */
final class CraftedNames {

  static final Scatter KNOWN =
      new Scatter(0x0123456789ABCDEFL, 0x9E3779B97F4A7C15L, 0xBF58476D1CE4E5B9L);

  private CraftedNames() {}

  /** The name with this image under {@link #KNOWN}. */
  static long of(long image) {
    long mixed = image * inverse(KNOWN.second());
    mixed ^= mixed >>> 32;
    return mixed * inverse(KNOWN.first()) ^ KNOWN.mask();
  }

  /** Newton's iteration doubles the right bits: 3, 6, 12, 24, 48, 96. */
  private static long inverse(long odd) {
    long inverse = odd;
    for (int i = 0; i < 5; i++) {
      inverse *= 2 - odd * inverse;
    }
    return inverse;
  }
}
