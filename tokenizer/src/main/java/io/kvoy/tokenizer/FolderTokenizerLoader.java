// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.encode.DjlTextEncoder;
import io.kvoy.tokenizer.files.FolderProblem;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.nio.file.Path;

/**
 * Reads a folder, builds its encoder and its chat renderer. Holds the large file only while it
 * works.
 */
public final class FolderTokenizerLoader implements TokenizerLoader {

  private final ChatTextFactory chatTexts;

  public FolderTokenizerLoader(ChatTextFactory chatTexts) {
    this.chatTexts = chatTexts;
  }

  @Override
  public Load load(Path path) {
    return switch (TokenizerFolderReader.read(path)) {
      case FolderRead.Complete(TokenizerFolder folder) -> build(folder);
      case FolderRead.Unusable(FolderProblem problem) -> new Load.Failed(problem);
    };
  }

  private Load build(TokenizerFolder folder) {
    return switch (DjlTextEncoder.create(folder.tokenizerJson())) {
      case DjlTextEncoder.Creation.Created(DjlTextEncoder encoder) ->
          new Load.Loaded(new FolderPromptTokenizer(encoder, chatTexts.forFolder(folder)), "djl");
      case DjlTextEncoder.Creation.Refused(String why) ->
          new Load.Failed(
              new FolderProblem(
                  FolderProblem.Kind.UNSUPPORTED,
                  folder.path().resolve("tokenizer.json"),
                  why,
                  "check that it is the file of the model's repository and that DJL_CACHE_DIR is"
                      + " writable"));
    };
  }
}
