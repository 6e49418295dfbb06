// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Prompt;

/**
 * Renders a conversation to the text that the worker would tokenize, special tokens spelled out.
 * One per tokenizer folder; thread-safe; never throws for any conversation. Implemented over the
 * chat template of the folder.
 */
public interface ChatText {

  Rendering render(Prompt.Chat chat);

  /** The text, or why there is none. */
  sealed interface Rendering {

    /** The worker's text, character for character. */
    record Rendered(String text) implements Rendering {}

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
