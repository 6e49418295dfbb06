// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Json;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * A tokenizer's named special tokens, which templates see as variables ({@code bos_token}, {@code
 * eos_token}, …).
 *
 * @param byName variable name to token text
 */
public record SpecialTokens(SequencedMap<String, String> byName) {

  /** A tokenizer without any. */
  public static final SpecialTokens NONE = new SpecialTokens(new LinkedHashMap<>());

  public SpecialTokens {
    byName = Collections.unmodifiableSequencedMap(new LinkedHashMap<>(byName));
  }

  /**
   * Reads a {@code tokenizer_config.json} as transformers 5.19 does ({@code
   * tokenization_utils_base.py}): every key ending in {@code _token} with a text or an added token
   * as value, and the members of an {@code extra_special_tokens} object.
   */
  public static SpecialTokens fromTokenizerConfig(Json.Obj config) {
    SequencedMap<String, String> byName = new LinkedHashMap<>();
    for (Map.Entry<String, Json> field : config.fields().entrySet()) {
      String text = tokenText(field.getValue());
      if (field.getKey().endsWith("_token") && text != null) {
        byName.put(field.getKey(), text);
      }
    }
    if (config.get("extra_special_tokens") instanceof Json.Obj extra) {
      for (Map.Entry<String, Json> field : extra.fields().entrySet()) {
        String text = tokenText(field.getValue());
        if (text != null) {
          byName.put(field.getKey(), text);
        }
      }
    }
    return new SpecialTokens(byName);
  }

  private static @Nullable String tokenText(Json value) {
    return switch (value) {
      case Json.Str(String text) -> text;
      case Json.Obj added -> added.get("content") instanceof Json.Str(String text) ? text : null;
      case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _, Json.Arr _ -> null;
    };
  }
}
