// SPDX-License-Identifier: Apache-2.0

/**
 * From a prompt to the token ids that the worker will see.
 *
 * <p>Start at {@link io.kvoy.tokenizer.PromptTokenizer} and its result {@link
 * io.kvoy.tokenizer.Tokenization}. Called on CPU threads of the routing pipeline; implementations
 * are thread-safe. Nothing here knows the fleet. DJL types stay inside.
 */
@NullMarked
package io.kvoy.tokenizer;

import org.jspecify.annotations.NullMarked;
