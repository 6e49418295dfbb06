// SPDX-License-Identifier: Apache-2.0

/**
 * Byte-level BPE without JNI and without regular expressions, ten to forty times cheaper than the
 * reference library.
 *
 * <p>Start at {@link io.kvoy.tokenizer.bpe.BpeTextEncoder}: text is cut at added tokens,
 * normalized, cut into words by a {@link io.kvoy.tokenizer.bpe.WordScanner}, and each word becomes
 * ids in {@link io.kvoy.tokenizer.bpe.BpeModel}. {@link io.kvoy.tokenizer.bpe.BpeFileReader}
 * decides whether a {@code tokenizer.json} is one that this package knows exactly; {@link
 * io.kvoy.tokenizer.bpe.DifferentialCheck} compares with the reference before such an encoder may
 * serve. Called by CPU threads; no locks. Nothing here knows models or requests.
 */
@NullMarked
package io.kvoy.tokenizer.bpe;

import org.jspecify.annotations.NullMarked;
