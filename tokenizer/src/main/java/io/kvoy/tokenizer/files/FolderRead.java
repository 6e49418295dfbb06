// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

/** What became of reading a folder. */
public sealed interface FolderRead {

  /** Everything that must be there was there. */
  record Complete(TokenizerFolder folder) implements FolderRead {}

  /** Not usable as it is. */
  record Unusable(FolderProblem problem) implements FolderRead {}
}
