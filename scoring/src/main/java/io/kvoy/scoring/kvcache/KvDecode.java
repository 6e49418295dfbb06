// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/** Outcome of reading a payload. */
public sealed interface KvDecode permits KvDecode.Decoded, KvDecodeError {

  /** It was read. */
  record Decoded(KvBatch batch) implements KvDecode {}
}
