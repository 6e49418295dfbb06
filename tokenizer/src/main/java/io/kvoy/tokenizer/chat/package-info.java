// SPDX-License-Identifier: Apache-2.0

/**
 * From a conversation to the text that the worker tokenizes, the way vLLM 0.32 does it.
 *
 * <p>Start at {@link io.kvoy.tokenizer.chat.ChatRenderer}. It normalises the messages ({@code
 * ChatNormalizer}), gathers the template's variables and renders. Called on CPU threads of the
 * routing pipeline; everything here is immutable and thread-safe. No I/O, no tokenizer.
 */
@NullMarked
package io.kvoy.tokenizer.chat;

import org.jspecify.annotations.NullMarked;
