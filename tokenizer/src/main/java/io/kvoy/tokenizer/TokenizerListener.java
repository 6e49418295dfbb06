// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.files.FolderProblem;
import java.util.SortedSet;

/** Told what became of each load. Called on the loader thread; must be quick and must not throw. */
public interface TokenizerListener {

  /** Hears nothing. */
  TokenizerListener SILENT =
      new TokenizerListener() {
        @Override
        public void loaded(SortedSet<String> models, String encoder) {}

        @Override
        public void failed(
            SortedSet<String> models, FolderProblem problem, boolean earlierGoesOn) {}
      };

  /**
   * A tokenizer serves these models.
   *
   * @param encoder which encoder it uses and why
   */
  void loaded(SortedSet<String> models, String encoder);

  /**
   * A load failed.
   *
   * @param earlierGoesOn whether a tokenizer loaded earlier goes on serving
   */
  void failed(SortedSet<String> models, FolderProblem problem, boolean earlierGoesOn);
}
