// SPDX-License-Identifier: Apache-2.0

/**
 * From text to token ids, equal to the HuggingFace {@code tokenizers} library.
 *
 * <p>Start at {@link io.kvoy.tokenizer.encode.TextEncoder}. Encoders are called by many CPU threads
 * at once. DJL types stay inside this package. Nothing here knows requests, templates or models.
 */
@NullMarked
package io.kvoy.tokenizer.encode;

import org.jspecify.annotations.NullMarked;
