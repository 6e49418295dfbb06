// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.files.FolderProblem;
import java.nio.file.Path;

/**
 * Makes the tokenizer of one folder. Called on the loader thread of {@link TokenizerRegistry};
 * takes seconds; the real one is {@link FolderTokenizerLoader}.
 */
@FunctionalInterface
public interface TokenizerLoader {

  Load load(Path folder);

  /** The same for a source that may bring a template of its own. */
  default Load load(TokenizerSource source) {
    return source.chatTemplate().isEmpty()
        ? load(source.folder())
        : new Load.Failed(
            new FolderProblem(
                FolderProblem.Kind.UNSUPPORTED,
                source.chatTemplate().get(),
                "this loader takes no chat template besides the folder's",
                "remove the template from the configuration"));
  }

  /** What became of it. */
  sealed interface Load {

    /**
     * Ready for requests.
     *
     * @param encoder which encoder it uses and why, for the status page
     */
    record Loaded(PromptTokenizer tokenizer, String encoder) implements Load {}

    /** Not usable as it is; the registry tries again. */
    record Failed(FolderProblem problem) implements Load {}
  }
}
