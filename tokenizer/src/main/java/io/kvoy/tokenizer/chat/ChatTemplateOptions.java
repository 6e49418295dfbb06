// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Json;
import org.jspecify.annotations.Nullable;

/**
 * The worker's own settings that change rendered prompts; each must equal the flag the worker was
 * started with.
 *
 * @param contentFormat {@code --chat-template-content-format}; null means {@code auto}: decided by
 *     looking at the template
 * @param defaultTemplateKwargs {@code --default-chat-template-kwargs}; the request's own win
 * @param excludeToolsWhenToolChoiceNone {@code --exclude-tools-when-tool-choice-none}
 */
public record ChatTemplateOptions(
    @Nullable ContentFormat contentFormat,
    Json.Obj defaultTemplateKwargs,
    boolean excludeToolsWhenToolChoiceNone) {

  /** A worker started without any of these flags. */
  public static final ChatTemplateOptions DEFAULTS =
      new ChatTemplateOptions(null, Json.Obj.of(java.util.Map.of()), false);
}
