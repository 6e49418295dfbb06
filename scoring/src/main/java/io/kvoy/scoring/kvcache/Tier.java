// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import org.jspecify.annotations.Nullable;

/** Where a block lies, from fast to slow. */
public enum Tier {
  /** In the engine's own cache; free to use. */
  GPU(0),
  /** In host memory; must be copied in. */
  CPU(1),
  /** On a disk, in an object store or on another machine. */
  STORAGE(2);

  /** Number of tiers; {@link KeyTable} planes from here on belong to further cache groups. */
  static final int COUNT = 3;

  private final int plane;

  Tier(int plane) {
    this.plane = plane;
  }

  /** The tier's plane in {@link KeyTable}. */
  int plane() {
    return plane;
  }

  /**
   * The tier of an event's {@code medium} field.
   *
   * <p>vLLM 0.32 names {@code GPU}, {@code CPU}, {@code STORAGE} (0.26 and 0.27 {@code FS}, {@code
   * OBJ}); SGLang 0.5.23 {@code GPU}, {@code CPU_PINNED}, {@code DISK}, {@code EXTERNAL}. Events
   * before vLLM 0.10 have no medium: GPU. A name not known here counts as the slowest.
   */
  static Tier ofMedium(@Nullable String medium) {
    if (medium == null) {
      return GPU;
    }
    return switch (medium) {
      case "GPU" -> GPU;
      case "CPU", "CPU_PINNED" -> CPU;
      default -> STORAGE;
    };
  }
}
