// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonWriter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;

/**
 * Mistral's own tokenizer file, {@code tekken.json}, written anew as a {@code tokenizer.json}
 * (mistral_common 1.13 {@code tokens/tokenizers/tekken.py}): a vocabulary by rank, one expression
 * that cuts words, and special tokens in front of the vocabulary's ids.
 *
 * <p>Such a file has no merges: any two neighbours merge that together are a token, the lowest rank
 * first, and a word that is a token is taken as it is. So every way to cut a token into two tokens
 * becomes a merge. No text is a special token here, whatever it spells out.
 */
final class TekkenFile {

  /** Special tokens of files that do not list them begin so: unknown, beginning, end. */
  private static final int DEFAULT_BOS = 1;

  private static final String BOS = "<s>";

  private static final int BYTES = 256;

  private @Nullable String pattern;
  private int vocabularySize = -1;
  private int specialTokens = -1;
  private int bos = DEFAULT_BOS;

  /** Bytes of each token, in the byte alphabet, by rank. */
  private List<String> tokens = new ArrayList<>();

  private TekkenFile() {}

  /**
   * The same tokenizer as a {@code tokenizer.json}.
   *
   * @return null when this is no such file
   */
  static @Nullable String asTokenizerJson(String tekkenJson) {
    var file = new TekkenFile();
    try (JsonParser parser = TokenizerJsonParser.open(tekkenJson)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return null;
      }
      while (parser.nextToken() == JsonToken.PROPERTY_NAME) {
        String name = parser.currentName();
        parser.nextToken();
        boolean known =
            switch (name) {
              case "config" -> file.readConfig(TokenizerJsonParser.readValue(parser));
              case "vocab" -> file.readVocabulary(parser);
              case "special_tokens" ->
                  file.readSpecialTokens(TokenizerJsonParser.readValue(parser));
              default -> {
                parser.skipChildren();
                yield true;
              }
            };
        if (!known) {
          return null;
        }
      }
    } catch (JacksonException | IllegalArgumentException _) {
      return null;
    }
    return file.isComplete() ? file.write() : null;
  }

  private boolean readConfig(Json value) {
    if (!(value instanceof Json.Obj config)
        || !(config.get("pattern") instanceof Json.Str(String regex))
        || !(config.get("default_vocab_size") instanceof Json.Int(long size))
        || !(config.get("default_num_special_tokens") instanceof Json.Int(long special))
        || special < 0
        || size <= special
        || size > Integer.MAX_VALUE) {
      return false;
    }
    pattern = regex;
    vocabularySize = (int) size;
    specialTokens = (int) special;
    return true;
  }

  private boolean readVocabulary(JsonParser parser) {
    if (parser.currentToken() != JsonToken.START_ARRAY) {
      return false;
    }
    while (parser.nextToken() == JsonToken.START_OBJECT) {
      if (!(TokenizerJsonParser.readValue(parser) instanceof Json.Obj entry)
          || !(entry.get("rank") instanceof Json.Int(long rank))
          || rank != tokens.size()
          || !(entry.get("token_bytes") instanceof Json.Str(String encoded))) {
        return false;
      }
      tokens.add(inAlphabet(Base64.getDecoder().decode(encoded)));
    }
    return true;
  }

  private static String inAlphabet(byte[] bytes) {
    var text = new StringBuilder(bytes.length);
    for (byte b : bytes) {
      text.append(ByteAlphabet.character(b & 0xFF));
    }
    return text.toString();
  }

  private boolean readSpecialTokens(Json value) {
    if (value instanceof Json.Null) {
      return true;
    }
    if (!(value instanceof Json.Arr(List<Json> items))) {
      return false;
    }
    for (Json item : items) {
      if (item instanceof Json.Obj token
          && token.get("token_str") instanceof Json.Str(String text)
          && text.equals(BOS)
          && token.get("rank") instanceof Json.Int(long rank)
          && rank >= 0
          && rank <= Integer.MAX_VALUE) {
        bos = (int) rank;
      }
    }
    return true;
  }

  private boolean isComplete() {
    if (pattern == null || vocabularySize - specialTokens > tokens.size()) {
      return false;
    }
    // What lies beyond is in the file for larger vocabularies.
    tokens = tokens.subList(0, vocabularySize - specialTokens);
    if (tokens.size() < BYTES) {
      return false;
    }
    for (int i = 0; i < BYTES; i++) {
      if (tokens.get(i).length() != 1) {
        return false;
      }
    }
    return true;
  }

  private String write() {
    Map<String, Integer> ranks = HashMap.newHashMap(tokens.size());
    var vocabulary = new StringBuilder();
    for (int rank = 0; rank < tokens.size(); rank++) {
      ranks.put(tokens.get(rank), rank);
      vocabulary.append(rank == 0 ? "" : ",");
      quote(tokens.get(rank), vocabulary);
      vocabulary.append(':').append(rank + specialTokens);
    }
    var merges = new StringBuilder();
    for (String token : tokens) {
      for (int cut = 1; cut < token.length(); cut++) {
        String left = token.substring(0, cut);
        String right = token.substring(cut);
        if (ranks.containsKey(left) && ranks.containsKey(right)) {
          merges.append(merges.isEmpty() ? "" : ",");
          // The alphabet has no space.
          quote(left + " " + right, merges);
        }
      }
    }
    return """
        {"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
        "pre_tokenizer":{"type":"Sequence","pretokenizers":[
        {"type":"Split","pattern":{"Regex":%s},"behavior":"Isolated","invert":false},
        {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]},
        "post_processor":{"type":"TemplateProcessing",
        "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
        "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
        "special_tokens":{"<s>":{"id":"<s>","ids":[%d],"tokens":["<s>"]}}},
        "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
        "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
        "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":true,
        "vocab":{"""
        .formatted(JsonWriter.text(new Json.Str(String.valueOf(pattern))), bos)
        .concat(vocabulary + "},\"merges\":[" + merges + "]}}");
  }

  /** The alphabet has two characters that JSON escapes. */
  private static void quote(String text, StringBuilder out) {
    out.append('"').append(text.replace("\\", "\\\\").replace("\"", "\\\"")).append('"');
  }
}
