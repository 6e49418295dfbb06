// SPDX-License-Identifier: Apache-2.0

/**
 * From a prompt to the token ids that the worker will see.
 *
 * <p>Start at {@link io.kvoy.tokenizer.PromptTokenizer} and its result {@link
 * io.kvoy.tokenizer.Tokenization}; {@link io.kvoy.tokenizer.TokenizerRegistry} holds one for each
 * model. Called on CPU threads of the routing pipeline; implementations are thread-safe. Nothing
 * here knows the fleet. DJL types stay inside.
 *
 * <p>Below: {@code files} reads a model's folder, {@code jinja} and {@code chat} render
 * conversations, {@code encode} has the reference encoder and the cache of text that came before,
 * {@code bpe} the fast encoder.
 */
@NullMarked
package io.kvoy.tokenizer;

import org.jspecify.annotations.NullMarked;
