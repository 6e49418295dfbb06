// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import io.kvoy.inference.Json;
import java.nio.file.Path;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;

/**
 * What a tokenizer folder says, read once by {@link TokenizerFolderReader}. Large (it holds the
 * whole {@code tokenizer.json}); let go of it once encoder and chat renderer are built.
 */
public final class TokenizerFolder {

  private final Path path;
  private final String tokenizerJson;
  private final List<AddedToken> addedTokens;
  private final Pipeline pipeline;
  private final SequencedMap<String, String> specialTokens;
  private final ChatTemplates chatTemplates;
  private final Optional<String> ownChatRenderer;

  TokenizerFolder(
      Path path,
      String tokenizerJson,
      List<AddedToken> addedTokens,
      Pipeline pipeline,
      SequencedMap<String, String> specialTokens,
      ChatTemplates chatTemplates,
      Optional<String> ownChatRenderer) {
    this.path = path;
    this.tokenizerJson = tokenizerJson;
    this.addedTokens = List.copyOf(addedTokens);
    this.pipeline = pipeline;
    this.specialTokens = Collections.unmodifiableSequencedMap(new LinkedHashMap<>(specialTokens));
    this.chatTemplates = chatTemplates;
    this.ownChatRenderer = ownChatRenderer;
  }

  /** Where it was read. */
  public Path path() {
    return path;
  }

  /**
   * The text of {@code tokenizer.json}, with the added tokens that only the configuration knows.
   */
  public String tokenizerJson() {
    return tokenizerJson;
  }

  /** {@code added_tokens} in file order, then those that only the configuration knows. */
  public List<AddedToken> addedTokens() {
    return addedTokens;
  }

  /** What {@code tokenizer.json} does before and after the model. */
  public Pipeline pipeline() {
    return pipeline;
  }

  /**
   * The small parts of a {@code tokenizer.json}, as they stand there; JSON null when absent.
   *
   * @param normalizer changes each piece of text between added tokens
   * @param preTokenizer cuts it into words
   * @param postProcessor puts special tokens around the ids
   */
  public record Pipeline(Json normalizer, Json preTokenizer, Json postProcessor) {}

  /**
   * The variables that a template sees by name: {@code bos_token}, {@code eos_token}, {@code
   * pad_token}, {@code unk_token} and whatever else the configuration names; absent when the
   * configuration says null.
   */
  public SequencedMap<String, String> specialTokens() {
    return specialTokens;
  }

  public ChatTemplates chatTemplates() {
    return chatTemplates;
  }

  /** This folder with one template for everything instead of its own. */
  public TokenizerFolder withChatTemplate(String template) {
    var byName = new LinkedHashMap<String, String>();
    byName.put("default", template);
    return new TokenizerFolder(
        path,
        tokenizerJson,
        addedTokens,
        pipeline,
        specialTokens,
        new ChatTemplates(byName, null),
        ownChatRenderer);
  }

  /**
   * Set when vLLM renders this model's conversations by code of its own and ignores the template:
   * the name of that renderer, such as {@code harmony} or {@code deepseek_v32}.
   */
  public Optional<String> ownChatRenderer() {
    return ownChatRenderer;
  }
}
