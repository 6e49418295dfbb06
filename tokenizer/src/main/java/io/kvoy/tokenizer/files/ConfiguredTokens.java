// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Added tokens that only {@code tokenizer_config.json} knows. transformers 5.19 adds them to the
 * tokenizer after reading {@code tokenizer.json} ({@code tokenization_utils_tokenizers.py}
 * TokenizersBackend): first those of {@code added_tokens_decoder} by index, then the named special
 * tokens, then the list of further ones. Without them a text that spells one out would get other
 * ids than in the worker.
 */
final class ConfiguredTokens {

  /** The tokenizer library finds the id itself: the vocabulary's, or the next free one. */
  static final int UNKNOWN_ID = -1;

  private final Set<String> known = new HashSet<>();
  private final List<AddedToken> missing = new ArrayList<>();

  private ConfiguredTokens(List<AddedToken> inFile) {
    inFile.forEach(token -> known.add(token.content()));
  }

  /**
   * @param inFile added tokens of {@code tokenizer.json}
   * @param config {@code tokenizer_config.json}
   * @param named the named special tokens as they stand in their file
   */
  static List<AddedToken> missing(
      List<AddedToken> inFile, Json.Obj config, Map<String, Json> named) {
    var tokens = new ConfiguredTokens(inFile);
    if (config.get("added_tokens_decoder") instanceof Json.Obj decoder) {
      tokens.addDecoder(decoder);
    }
    named.values().forEach(token -> tokens.add(UNKNOWN_ID, token, true));
    Json extra =
        config.get("extra_special_tokens") instanceof Json.Arr list
            ? list
            : config.get("additional_special_tokens");
    if (extra instanceof Json.Arr(List<Json> items)) {
      items.forEach(token -> tokens.add(UNKNOWN_ID, token, true));
    }
    return tokens.missing;
  }

  private void addDecoder(Json.Obj decoder) {
    SortedMap<Integer, Json> byId = new TreeMap<>(Comparator.naturalOrder());
    decoder
        .fields()
        .forEach(
            (id, token) -> {
              if (id.matches("[0-9]{1,9}")) {
                byId.put(Integer.parseInt(id), token);
              }
            });
    byId.forEach((id, token) -> add(id, token, false));
  }

  /**
   * @param special what a token is that does not say
   */
  private void add(int id, Json token, boolean special) {
    String content =
        token instanceof Json.Obj object && object.get("content") instanceof Json.Str(String text)
            ? text
            : token.asString();
    if (content == null || content.isEmpty() || !known.add(content)) {
      return;
    }
    boolean isSpecial = special || flag(token, "special", false);
    missing.add(
        new AddedToken(
            id,
            content,
            flag(token, "single_word", false),
            flag(token, "lstrip", false),
            flag(token, "rstrip", false),
            flag(token, "normalized", !isSpecial),
            isSpecial));
  }

  private static boolean flag(Json token, String name, boolean absent) {
    return (token instanceof Json.Obj object
            && object.get(name) instanceof Json.Bool(boolean value))
        ? value
        : absent;
  }

  /** These tokens as elements of the array {@code added_tokens}, separated by commas. */
  static String asJson(List<AddedToken> tokens) {
    var json = new StringBuilder();
    for (AddedToken token : tokens) {
      json.append(json.isEmpty() ? "" : ",")
          .append("{\"id\":")
          .append(Math.max(0, token.id()))
          .append(",\"content\":\"");
      token.content().chars().forEach(c -> json.append("\\u%04x".formatted(c)));
      json.append("\",\"single_word\":")
          .append(token.singleWord())
          .append(",\"lstrip\":")
          .append(token.lstrip())
          .append(",\"rstrip\":")
          .append(token.rstrip())
          .append(",\"normalized\":")
          .append(token.normalized())
          .append(",\"special\":")
          .append(token.special())
          .append('}');
    }
    return json.toString();
  }
}
