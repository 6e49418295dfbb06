// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.tokenizer.Tokenization;

/** Tokens as the simulated model knows them. Thread-safe. */
public interface SimTokenizer {

  /** The prompts of a request body, as the worker would read them. */
  Tokenization prompts(ApiKind api, byte[] body);

  /** Ids of a plain text, without any special token added. */
  Tokenization text(String text);

  /** Ids below this are known to the model. */
  int vocabularySize();

  /** The token that ends an answer; it has no text. */
  int endId();
}
