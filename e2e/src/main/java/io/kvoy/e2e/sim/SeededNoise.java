// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

/**
 * The one source of chance in the simulator: a fixed scramble of 64 bits, so that a seed says
 * everything.
 */
final class SeededNoise {
  private SeededNoise() {}

  /**
   * The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
   * generators, 2014).
   */
  static long mix(long z) {
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
