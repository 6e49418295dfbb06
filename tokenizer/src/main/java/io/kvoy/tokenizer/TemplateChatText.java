// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ChatRenderer;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.chat.ChatTemplates;
import io.kvoy.tokenizer.chat.ConversationMemory;
import io.kvoy.tokenizer.chat.HarmonyRenderer;
import io.kvoy.tokenizer.chat.HarmonyResult;
import io.kvoy.tokenizer.chat.SpecialTokens;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.jinja.RenderResult;
import java.time.Clock;

/**
 * Renders conversations as vLLM renders them for the model of a tokenizer folder: with the folder's
 * chat templates, or in Harmony for gpt-oss. Thread-safe, immutable.
 */
public final class TemplateChatText {

  private TemplateChatText() {}

  /**
   * Makes the renderers of folders.
   *
   * @param options flags that the workers were started with
   * @param clock time and zone of {@code strftime_now} and of Harmony's date; UTC in the workers'
   *     images
   */
  public static ChatTextFactory factory(ChatTemplateOptions options, Clock clock) {
    return new Factory(options, clock);
  }

  private record Factory(ChatTemplateOptions options, Clock clock) implements ChatTextFactory {
    @Override
    public ChatText forFolder(TokenizerFolder folder) {
      return of(folder, options, clock);
    }

    @Override
    public ChatTextFactory with(ChatTemplateOptions other) {
      return new Factory(other, clock);
    }
  }

  private static ChatText of(TokenizerFolder folder, ChatTemplateOptions options, Clock clock) {
    if (folder.ownChatRenderer().isPresent()) {
      String own = folder.ownChatRenderer().get();
      return own.equals("harmony")
          ? harmony(new HarmonyRenderer(options.excludeToolsWhenToolChoiceNone(), clock))
          : unsupported("renderer_" + own);
    }
    return switch (ChatTemplates.of(folder.chatTemplates())) {
      case ChatTemplates.Load.Loaded(ChatTemplates templates) ->
          templates(
              new ChatRenderer(
                  templates, new SpecialTokens(folder.specialTokens()), options, clock));
      case ChatTemplates.Load.Absent _ -> unsupported("no_chat_template");
      case ChatTemplates.Load.Unsupported(String feature, int _, String _) -> unsupported(feature);
    };
  }

  private static ChatText unsupported(String feature) {
    var always = new ChatText.Rendering.Unsupported(feature);
    return _ -> always;
  }

  private static ChatText harmony(HarmonyRenderer renderer) {
    return chat ->
        switch (renderer.render(chat)) {
          case HarmonyResult.Rendered prompt -> new ChatText.Rendering.Pieces(prompt);
          case HarmonyResult.Refused(String message) -> new ChatText.Rendering.Refused(message);
          case HarmonyResult.Unsupported(String feature) ->
              new ChatText.Rendering.Unsupported(feature);
        };
  }

  private static ChatText templates(ChatRenderer renderer) {
    return new ChatText() {
      @Override
      public Rendering render(Prompt.Chat chat) {
        return rendering(renderer.render(chat));
      }

      @Override
      public Rendering render(Prompt.Chat chat, ConversationMemory memory) {
        return switch (renderer.render(chat, memory)) {
          case ChatRenderer.Recalled.Text(var turn, var parts) ->
              new Rendering.Recalled(turn, parts);
          case ChatRenderer.Recalled.Other(RenderResult result) -> rendering(result);
        };
      }
    };
  }

  private static ChatText.Rendering rendering(RenderResult result) {
    return switch (result) {
      case RenderResult.Rendered(String text) -> new ChatText.Rendering.Rendered(text);
      case RenderResult.Refused(String message) -> new ChatText.Rendering.Refused(message);
      case RenderResult.Unsupported(String feature) -> new ChatText.Rendering.Unsupported(feature);
      case RenderResult.Failed(String kind) -> new ChatText.Rendering.Failed(kind);
    };
  }
}
