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
