// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.nio.file.Path;
import java.util.Optional;

/**
 * Where a model's tokenizer comes from on this machine. Models with equal sources share one.
 *
 * @param folder holds {@code tokenizer.json}; absolute
 * @param chatTemplate file that stands for all templates of the folder, as vLLM's {@code
 *     --chat-template} does
 * @param options flags that the workers were started with
 */
public record TokenizerSource(
    Path folder, Optional<Path> chatTemplate, ChatTemplateOptions options) {

  public TokenizerSource {
    folder = folder.toAbsolutePath().normalize();
    chatTemplate = chatTemplate.map(file -> file.toAbsolutePath().normalize());
  }

  /** A folder with templates of its own. */
  public static TokenizerSource of(Path folder) {
    return new TokenizerSource(folder, Optional.empty(), ChatTemplateOptions.DEFAULTS);
  }
}
