// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import java.util.Optional;
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

  /** Those of a tokenizer folder: one for everything, or another one for requests with tools. */
  public static Load of(io.kvoy.tokenizer.files.ChatTemplates folder) {
    Optional<String> plain = folder.choose(false);
    Optional<String> withTools = folder.choose(true);
    if (plain.isEmpty()) {
      return new Load.Absent();
    }
    Load load = parse(plain.get());
    if (withTools.equals(plain)
        || withTools.isEmpty()
        || !(load instanceof Load.Loaded(ChatTemplates first))) {
      return load;
    }
    return switch (Template.parse(withTools.get())) {
      case TemplateParse.Parsed(Template template) ->
          new Load.Loaded(new ChatTemplates(first.plain(), template));
      case TemplateParse.Unsupported(String feature, int line, String detail) ->
          new Load.Unsupported(feature, line, detail);
    };
  }
}
