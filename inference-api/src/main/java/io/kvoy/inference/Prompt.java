// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** What the model is to read, before any chat template and tokenizer. */
public sealed interface Prompt {

  /**
   * A conversation in OpenAI chat shape, as vLLM's chat path receives it. Requests of other
   * dialects (responses, messages) are converted to this shape the way vLLM 0.32 does it.
   *
   * @param messages the message objects as the client sent them (or as converted), unnormalised
   * @param tools tool definitions as sent, empty when none
   * @param options everything else of the request that can change the rendered prompt
   */
  record Chat(List<Json.Obj> messages, List<Json> tools, ChatOptions options) implements Prompt {
    public Chat {
      messages = List.copyOf(messages);
      tools = List.copyOf(tools);
    }
  }

  /**
   * One or more raw texts (completions).
   *
   * @param addSpecialTokens whether the tokenizer's post-processor adds its BOS; vLLM's default is
   *     true
   */
  record Texts(List<String> texts, boolean addSpecialTokens) implements Prompt {
    public Texts {
      texts = List.copyOf(texts);
    }
  }

  /** One or more prompts given as token ids; the arrays are not to be modified. */
  record Tokens(List<int[]> prompts) implements Prompt {
    public Tokens {
      prompts = List.copyOf(prompts);
    }
  }

  /**
   * Understood as a request, but its prompt is not known exactly (an image, an unknown block type,
   * state on a worker).
   *
   * @param reason short metric-safe word such as {@code image_part} or {@code previous_response_id}
   * @param approxChars number of text characters seen, for a load estimate
   * @param readable the conversation when images, sounds and the like are all that is unreadable in
   *     it: content parts that are no text. What stands before the first message with such a part
   *     is known. Null otherwise
   */
  record Unreadable(String reason, int approxChars, @Nullable Chat readable) implements Prompt {

    public Unreadable(String reason, int approxChars) {
      this(reason, approxChars, null);
    }
  }
}
