// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.json.PythonJsonReader;
import io.kvoy.tokenizer.FolderTokenizerLoader;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.TemplateChatText;
import io.kvoy.tokenizer.Tokenization;
import io.kvoy.tokenizer.TokenizerLoader;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A real tokenizer with its chat template, from its folder. Thread-safe. */
public final class FolderSimTokenizer implements SimTokenizer {
  /** Ids of every tokenizer that the simulator is used with lie below this. */
  private static final int VOCABULARY_SIZE = 262_144;

  private final PromptTokenizer tokenizer;
  private final int endId;

  private FolderSimTokenizer(PromptTokenizer tokenizer, int endId) {
    this.tokenizer = tokenizer;
    this.endId = endId;
  }

  /** Loads a folder; the token that ends an answer is its {@code eos_token}. */
  public static FolderSimTokenizer load(Path folder) throws IOException {
    Path file = folder.resolve("tokenizer_config.json");
    String token =
        switch (PythonJsonReader.read(Files.readString(file))) {
          case PythonJsonReader.Outcome.Read(Json.Obj config) -> endToken(config.get("eos_token"));
          case PythonJsonReader.Outcome.Read _, PythonJsonReader.Outcome.Failed _ -> null;
        };
    if (token == null) {
      throw new IOException(file + " names no eos_token");
    }
    return load(folder, token);
  }

  /** An added token is written as its text or as an object with the text in {@code content}. */
  private static @Nullable String endToken(@Nullable Json token) {
    Json text = token instanceof Json.Obj added ? added.get("content") : token;
    return text == null ? null : text.asString();
  }

  /**
   * Loads a folder.
   *
   * @param endToken text of the token that ends an answer, such as {@code <|im_end|>}
   * @throws IOException when the folder cannot be used, with the reason
   */
  public static FolderSimTokenizer load(Path folder, String endToken) throws IOException {
    TokenizerLoader loader =
        new FolderTokenizerLoader(
            TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
            FolderTokenizerLoader.Settings.DEFAULT);
    return switch (loader.load(folder)) {
      case TokenizerLoader.Load.Loaded(PromptTokenizer tokenizer, String _) -> {
        if (tokenizer.tokenize(new Prompt.Texts(List.of(endToken), false))
                instanceof Tokenization.Exact exact
            && exact.totalTokens() == 1) {
          yield new FolderSimTokenizer(tokenizer, exact.prompts().getFirst()[0]);
        }
        throw new IOException(endToken + " is not one token of the tokenizer in " + folder);
      }
      case TokenizerLoader.Load.Failed(var problem) -> throw new IOException(problem.oneLine());
    };
  }

  @Override
  public Tokenization prompts(ApiKind api, byte[] body) {
    return switch (Dialects.parse(api, body)) {
      case RequestParse.Parsed(var request) -> tokenizer.tokenize(request.prompt());
      case RequestParse.PassThrough(var _, String reason) -> new Tokenization.Unavailable(reason);
      case RequestParse.Malformed(var _, var _, String reason) ->
          new Tokenization.Unavailable(reason);
    };
  }

  @Override
  public Tokenization text(String text) {
    return tokenizer.tokenize(new Prompt.Texts(List.of(text), false));
  }

  @Override
  public int vocabularySize() {
    return VOCABULARY_SIZE;
  }

  @Override
  public int endId() {
    return endId;
  }
}
