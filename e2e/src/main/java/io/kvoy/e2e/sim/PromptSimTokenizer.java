// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.Tokenization;
import java.util.List;

/**
 * Kvoy's own reading of requests as the simulated worker's: bodies through {@link Dialects},
 * prompts through a {@link PromptTokenizer} of a real model.
 *
 * @param vocabularySize ids below this are known to the model
 * @param endId the model's end-of-text token
 */
public record PromptSimTokenizer(PromptTokenizer tokenizer, int vocabularySize, int endId)
    implements SimTokenizer {

  @Override
  public Tokenization prompts(ApiKind api, byte[] body) {
    return switch (Dialects.parse(api, body)) {
      case RequestParse.Parsed(var request) -> tokenizer.tokenize(request.prompt());
      case RequestParse.PassThrough(ApiKind _, String reason) ->
          new Tokenization.Unavailable(reason);
      case RequestParse.Malformed(ApiKind _, String _, String reason) ->
          new Tokenization.Unavailable(reason);
    };
  }

  @Override
  public Tokenization text(String text) {
    return tokenizer.tokenize(new Prompt.Texts(List.of(text), false));
  }
}
