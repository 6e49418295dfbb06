// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/**
 * What a KV cache group needs of a prefix before it can be reused, from the event field {@code
 * kv_cache_spec_kind} (vLLM 0.22 and later).
 */
public enum GroupKind {
  /** Every block of the prefix. */
  FULL,
  /** The blocks of the last {@code window} tokens. */
  WINDOW,
  /** The state at the end of the prefix (mamba): its last block. */
  STATE,
  /** Nothing that is known here: chunked local attention, cross attention, encoder only. */
  OTHER,
  /** The event does not say. */
  UNSTATED;

  static GroupKind ofSpec(String kind) {
    return switch (kind) {
      case "full_attention", "mla_attention", "sink_full_attention" -> FULL;
      case "sliding_window", "sliding_window_mla" -> WINDOW;
      case "mamba" -> STATE;
      case "unknown" -> UNSTATED;
      default -> OTHER;
    };
  }
}
