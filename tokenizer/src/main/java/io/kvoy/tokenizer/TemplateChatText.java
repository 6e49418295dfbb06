// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ChatRenderer;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.chat.ChatTemplates;
import io.kvoy.tokenizer.chat.SpecialTokens;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.jinja.RenderResult;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import java.time.Clock;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Renders conversations with the chat templates of a tokenizer folder. Thread-safe, immutable. */
public final class TemplateChatText implements ChatText {
  /** Renders conversations without tools; null when the folder has no template for them. */
  private final @Nullable ChatRenderer plain;

  /** Renders conversations with tools. */
  private final @Nullable ChatRenderer withTools;

  /** Why a renderer is missing; short word without template text. */
  private final String missing;

  private TemplateChatText(
      @Nullable ChatRenderer plain, @Nullable ChatRenderer withTools, String missing) {
    this.plain = plain;
    this.withTools = withTools;
    this.missing = missing;
  }

  /**
   * Makes the renderers of folders.
   *
   * @param options flags that the workers were started with
   * @param clock time and zone of {@code strftime_now}; UTC in the workers' images
   */
  public static ChatTextFactory factory(ChatTemplateOptions options, Clock clock) {
    return folder -> of(folder, options, clock);
  }

  private static ChatText of(TokenizerFolder folder, ChatTemplateOptions options, Clock clock) {
    Optional<String> own = folder.ownChatRenderer();
    if (own.isPresent()) {
      return new TemplateChatText(null, null, "renderer_" + own.get());
    }
    Choice plain = choose(folder, options, clock, false);
    Choice withTools = choose(folder, options, clock, true);
    return new TemplateChatText(
        plain.renderer(),
        withTools.renderer(),
        plain.problem().isEmpty() ? withTools.problem() : plain.problem());
  }

  private record Choice(@Nullable ChatRenderer renderer, String problem) {}

  private static Choice choose(
      TokenizerFolder folder, ChatTemplateOptions options, Clock clock, boolean hasTools) {
    Optional<String> text = folder.chatTemplates().choose(hasTools);
    if (text.isEmpty()) {
      return new Choice(null, "no_chat_template");
    }
    return switch (Template.parse(text.get())) {
      case TemplateParse.Parsed(Template template) ->
          new Choice(
              new ChatRenderer(
                  new ChatTemplates(template, null),
                  new SpecialTokens(folder.specialTokens()),
                  options,
                  clock),
              "");
      case TemplateParse.Unsupported(String feature, int _, String _) -> new Choice(null, feature);
    };
  }

  @Override
  public Rendering render(Prompt.Chat chat) {
    ChatRenderer renderer = chat.tools().isEmpty() ? plain : withTools;
    if (renderer == null) {
      return new Rendering.Unsupported(missing);
    }
    return switch (renderer.render(chat)) {
      case RenderResult.Rendered(String text) -> new Rendering.Rendered(text);
      case RenderResult.Refused(String message) -> new Rendering.Refused(message);
      case RenderResult.Unsupported(String feature) -> new Rendering.Unsupported(feature);
      case RenderResult.Failed(String kind) -> new Rendering.Failed(kind);
    };
  }
}
