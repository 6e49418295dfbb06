// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/**
 * Whether the blocks that a worker stores for our prompts are those that we compute for them; the
 * result of {@link OwnKeyCheck}.
 */
public sealed interface OwnKeys {

  /** No prompt was found whole yet, and too few were missed to say anything. */
  record Unverified() implements OwnKeys {}

  /** Prompts were found with every block. */
  record Verified() implements OwnKeys {}

  /**
   * Prompt after prompt is not what we think. The worker is scored without its cache until one is
   * found whole again, it is restarted or the configuration changes.
   *
   * @param detail for people: what was seen, what to look at
   */
  record Mismatch(Cause cause, String detail) implements OwnKeys {}

  /** What most likely differs. */
  enum Cause {
    /** Nothing of the prompts is there, or only a beginning: other chat template or tokenizer. */
    TEMPLATE,
    /** The prompts are there without their salt. */
    SALT,
    /** The prompts are there as the base model's instead of the adapter's, or the other way. */
    ADAPTER,
    /** The worker's block size is not a multiple of the canonical one. */
    BLOCK_SIZE
  }

  /** The state's name for metrics. */
  enum State {
    UNVERIFIED,
    VERIFIED,
    MISMATCH
  }

  /** The state without its details. */
  default State state() {
    return switch (this) {
      case Unverified _ -> State.UNVERIFIED;
      case Verified _ -> State.VERIFIED;
      case Mismatch _ -> State.MISMATCH;
    };
  }
}
