// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ConversationMemory;
import io.kvoy.tokenizer.chat.HarmonyResult;
import java.util.List;

/**
 * Renders a conversation to the text that the worker would tokenize, special tokens spelled out.
 * One per tokenizer folder; thread-safe; never throws for any conversation. Implemented over the
 * chat template of the folder.
 */
public interface ChatText {

  Rendering render(Prompt.Chat chat);

  /** The same, by means of what is remembered of the conversation where the renderer can. */
  default Rendering render(Prompt.Chat chat, ConversationMemory memory) {
    return render(chat);
  }

  /** The text, or why there is none. */
  sealed interface Rendering {

    /** The worker's text, character for character. */
    record Rendered(String text) implements Rendering {}

    /**
     * The worker's text in parts.
     *
     * @param turn for the memory, once the text is encoded
     */
    record Recalled(ConversationMemory.Turn turn, List<String> parts) implements Rendering {}

    /**
     * The worker's prompt where it is made of tokens and texts instead of one text: control tokens
     * by name, each text encoded by itself and free of control tokens whatever it spells out.
     */
    record Pieces(HarmonyResult.Rendered prompt) implements Rendering {}

    /**
     * The template itself refuses this conversation ({@code raise_exception}); the worker answers
     * 400.
     *
     * @param message the template's words; may quote the prompt, so never for logs
     */
    record Refused(String message) implements Rendering {}

    /**
     * The template or the model's own renderer needs something that is not implemented here.
     *
     * @param feature short word for the log, never prompt text
     */
    record Unsupported(String feature) implements Rendering {}

    /**
     * A limit was hit or the template broke on this input.
     *
     * @param kind short metric-safe word
     */
    record Failed(String kind) implements Rendering {}
  }
}
