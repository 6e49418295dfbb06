// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Prompt;

/** Turns a prompt into token ids for one model. Thread-safe; never throws for any prompt. */
public interface PromptTokenizer {
  Tokenization tokenize(Prompt prompt);
}
