// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import java.util.LinkedHashMap;
import java.util.Optional;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * The chat templates of a folder, and which of them vLLM takes (vLLM 0.32 {@code renderers/hf.py}
 * resolve_chat_template, transformers 5.19 {@code tokenization_utils_base.py} get_chat_template).
 *
 * <p>A folder has one template (called {@code default} here) or several with names. A multimodal
 * processor may have its own; vLLM asks it first unless the request has tools.
 *
 * @param byName templates of the tokenizer by name; {@code chat_template.jinja} and {@code
 *     additional_chat_templates/NAME.jinja} win over those in {@code tokenizer_config.json}
 * @param ofProcessor the template of {@code chat_template.json}, null when there is none or a
 *     {@code .jinja} overrules it
 */
public record ChatTemplates(SequencedMap<String, String> byName, @Nullable String ofProcessor) {

  public static final ChatTemplates NONE = new ChatTemplates(new LinkedHashMap<>(), null);

  public ChatTemplates {
    byName = java.util.Collections.unmodifiableSequencedMap(new LinkedHashMap<>(byName));
  }

  /** The template for a conversation, empty when the folder has none that fits. */
  public Optional<String> choose(boolean hasTools) {
    if (!hasTools && ofProcessor != null) {
      return Optional.of(ofProcessor);
    }
    String toolUse = byName.get("tool_use");
    if (hasTools && toolUse != null) {
      return Optional.of(toolUse);
    }
    return Optional.ofNullable(byName.get("default"));
  }
}
