// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import org.jspecify.annotations.Nullable;

/**
 * The chat templates of one model.
 *
 * @param plain used without tools, and with tools when {@code withTools} is null
 * @param withTools the model's template named {@code tool_use}, null when it has none
 */
public record ChatTemplates(Template plain, @Nullable Template withTools) {

  /** What became of a model's templates. */
  public sealed interface Load {
    /** Usable. */
    record Loaded(ChatTemplates templates) implements Load {}

    /** The model has no chat template: the worker refuses every chat request. */
    record Absent() implements Load {}

    /**
     * Not usable here; the worker may well render it.
     *
     * @param feature short metric-safe word
     * @param line line of the template, from 1
     * @param detail for the person who configured the template; holds template text only
     */
    record Unsupported(String feature, int line, String detail) implements Load {}
  }

  /** One template for everything, such as the worker's {@code --chat-template} file. */
  public static Load parse(String text) {
    return switch (Template.parse(text)) {
      case TemplateParse.Parsed(Template template) ->
          new Load.Loaded(new ChatTemplates(template, null));
      case TemplateParse.Unsupported(String feature, int line, String detail) ->
          new Load.Unsupported(feature, line, detail);
    };
  }

  /**
   * The {@code chat_template} of a {@code tokenizer_config.json}: a text, or a list of named
   * templates of which transformers 5.19 uses {@code default} and, when a request has tools, {@code
   * tool_use}.
   */
  public static Load fromTokenizerConfig(Json.Obj config) {
    Json value = config.get("chat_template");
    if (value instanceof Json.Str(String text)) {
      return parse(text);
    }
    if (!(value instanceof Json.Arr(var entries))) {
      return new Load.Absent();
    }
    String plain = null;
    String withTools = null;
    for (Json entry : entries) {
      if (entry instanceof Json.Obj named
          && named.get("name") instanceof Json.Str(String name)
          && named.get("template") instanceof Json.Str(String text)) {
        if (name.equals("default")) {
          plain = text;
        } else if (name.equals("tool_use")) {
          withTools = text;
        }
      }
    }
    if (plain == null) {
      return new Load.Absent();
    }
    Load load = parse(plain);
    if (withTools == null || !(load instanceof Load.Loaded(ChatTemplates first))) {
      return load;
    }
    return switch (Template.parse(withTools)) {
      case TemplateParse.Parsed(Template template) ->
          new Load.Loaded(new ChatTemplates(first.plain(), template));
      case TemplateParse.Unsupported(String feature, int line, String detail) ->
          new Load.Unsupported(feature, line, detail);
    };
  }
}
