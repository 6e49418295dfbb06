// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import io.kvoy.inference.ApiKind;

/**
 * Where the answers of each API keep what a router wants to know (vLLM 0.32; recorded answers in
 * this module's tests).
 *
 * @param beforeToken places in a stream's event while the first token is awaited
 * @param afterToken places in a stream's event from then on: the text itself is skipped unread
 * @param whole places in an answer that is not streamed
 */
record AnswerPaths(
    JsonPaths<AnswerPaths.Field> beforeToken,
    JsonPaths<AnswerPaths.Field> afterToken,
    JsonPaths<AnswerPaths.Field> whole) {

  /** Meaning of a place. */
  enum Field {
    /** A non-empty string or a container here is generated content. */
    CONTENT,
    /** A word that may name a tool call. */
    BLOCK_TYPE,
    /** The event's own type. */
    TYPE,
    /** {@code object} of an OpenAI answer: {@code error} in older vLLM errors. */
    OBJECT,
    ERROR,
    STATUS,
    RESPONSE_ID,
    /** The usage object itself. */
    USAGE,
    /** A details object inside usage. */
    DETAILS,
    /** Prompt tokens, cached ones included. */
    PROMPT,
    /** Prompt tokens without those read from or written to the cache. */
    UNCACHED_PROMPT,
    CACHED,
    CACHE_WRITTEN,
    COMPLETION
  }

  private static final AnswerPaths OPENAI =
      new AnswerPaths(
          openaiTail()
              .with("choices[].text", Field.CONTENT)
              .with("choices[].delta.content", Field.CONTENT)
              .with("choices[].delta.reasoning", Field.CONTENT)
              .with("choices[].delta.reasoning_content", Field.CONTENT)
              .with("choices[].delta.refusal", Field.CONTENT)
              .with("choices[].delta.function_call", Field.CONTENT)
              .with("choices[].delta.tool_calls[]", Field.CONTENT),
          openaiTail(),
          openaiTail());

  private static final AnswerPaths RESPONSES =
      new AnswerPaths(
          responsesTail().with("delta", Field.CONTENT).with("item.type", Field.BLOCK_TYPE),
          responsesTail(),
          new JsonPaths<Field>()
              .with("id", Field.RESPONSE_ID)
              .with("error", Field.ERROR)
              .with("status", Field.STATUS)
              .with("usage", Field.USAGE)
              .with("usage.input_tokens", Field.PROMPT)
              .with("usage.input_tokens_details", Field.DETAILS)
              .with("usage.input_tokens_details.cached_tokens", Field.CACHED)
              .with("usage.output_tokens", Field.COMPLETION));

  private static final AnswerPaths MESSAGES =
      new AnswerPaths(
          messagesTail()
              .with("delta.text", Field.CONTENT)
              .with("delta.thinking", Field.CONTENT)
              .with("delta.partial_json", Field.CONTENT)
              .with("content_block.type", Field.BLOCK_TYPE)
              .with("content_block.text", Field.CONTENT)
              .with("content_block.thinking", Field.CONTENT),
          messagesTail(),
          messagesTail());

  /** The whole answer of {@code count_tokens} is one number. */
  private static final AnswerPaths COUNT_TOKENS =
      new AnswerPaths(countTokens(), countTokens(), countTokens());

  static AnswerPaths of(ApiKind api) {
    return switch (api) {
      case CHAT_COMPLETIONS, COMPLETIONS, OTHER -> OPENAI;
      case RESPONSES -> RESPONSES;
      case MESSAGES -> MESSAGES;
      case COUNT_TOKENS -> COUNT_TOKENS;
    };
  }

  private static JsonPaths<Field> openaiTail() {
    return new JsonPaths<Field>()
        .with("object", Field.OBJECT)
        .with("error", Field.ERROR)
        .with("usage", Field.USAGE)
        .with("usage.prompt_tokens", Field.PROMPT)
        .with("usage.completion_tokens", Field.COMPLETION)
        .with("usage.prompt_tokens_details", Field.DETAILS)
        .with("usage.prompt_tokens_details.cached_tokens", Field.CACHED);
  }

  private static JsonPaths<Field> responsesTail() {
    return new JsonPaths<Field>()
        .with("type", Field.TYPE)
        .with("error", Field.ERROR)
        .with("response.id", Field.RESPONSE_ID)
        .with("response.error", Field.ERROR)
        .with("response.usage", Field.USAGE)
        .with("response.usage.input_tokens", Field.PROMPT)
        .with("response.usage.input_tokens_details", Field.DETAILS)
        .with("response.usage.input_tokens_details.cached_tokens", Field.CACHED)
        .with("response.usage.output_tokens", Field.COMPLETION);
  }

  private static JsonPaths<Field> messagesTail() {
    JsonPaths<Field> paths =
        new JsonPaths<Field>().with("type", Field.TYPE).with("error", Field.ERROR);
    for (String usage : new String[] {"usage", "message.usage"}) {
      paths
          .with(usage, Field.USAGE)
          .with(usage + ".input_tokens", Field.UNCACHED_PROMPT)
          .with(usage + ".cache_read_input_tokens", Field.CACHED)
          .with(usage + ".cache_creation_input_tokens", Field.CACHE_WRITTEN)
          .with(usage + ".output_tokens", Field.COMPLETION);
    }
    return paths;
  }

  private static JsonPaths<Field> countTokens() {
    return new JsonPaths<Field>()
        .with("type", Field.TYPE)
        .with("error", Field.ERROR)
        .with("input_tokens", Field.PROMPT);
  }
}
