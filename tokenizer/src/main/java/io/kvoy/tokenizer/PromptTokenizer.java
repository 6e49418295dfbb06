// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Prompt;

/** Turns a prompt into token ids for one model. Thread-safe; never throws for any prompt. */
public interface PromptTokenizer {

  /** The whole prompt. */
  Tokenization tokenize(Prompt prompt);

  /** The prompt of a request, cut where the request asks for it. */
  default Tokenization tokenize(InferenceRequest request) {
    Tokenization whole = tokenize(request.prompt());
    return request.truncation() == null ? whole : whole.truncated(request.truncation(), 0, 0);
  }

  /** Memory that it takes at this moment, heap and native, by estimate; 0 when nobody knows. */
  default long memoryBytes() {
    return 0;
  }
}
