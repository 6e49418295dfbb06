// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.files.TokenizerFolder;

/**
 * Makes the chat renderer of a freshly read folder. Called on the loader thread of {@link
 * TokenizerRegistry}; may take its time (parsing a template), must not throw: a template that
 * cannot be parsed is a {@link ChatText} that answers {@link ChatText.Rendering.Unsupported}.
 */
@FunctionalInterface
public interface ChatTextFactory {
  ChatText forFolder(TokenizerFolder folder);

  /** The same for workers that were started with other flags. */
  default ChatTextFactory with(ChatTemplateOptions options) {
    return this;
  }
}
