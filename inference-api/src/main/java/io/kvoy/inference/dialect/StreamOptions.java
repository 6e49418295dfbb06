// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.inference.json.BodyEdit;

/** {@code stream_options} of the two OpenAI APIs that report usage in a stream only when asked. */
public final class StreamOptions {
  private StreamOptions() {}

  /**
   * Asks for a usage chunk at the end of a streamed answer; the caller takes it out of the answer
   * again with {@code stream.UsageChunkFilter}. Only for requests with {@code stream} whose {@code
   * includeUsage} is false: vLLM refuses stream options without a stream.
   */
  public static final BodyEdit REQUEST_USAGE =
      new BodyEdit.PutNested("stream_options", "include_usage", new Json.Bool(true));

  /**
   * Whether the answer's stream will end with usage. Responses and messages always do, and so do
   * whole answers.
   */
  static boolean includeUsage(Envelope envelope) {
    if (envelope.api() != ApiKind.CHAT_COMPLETIONS && envelope.api() != ApiKind.COMPLETIONS) {
      return true;
    }
    if (!envelope.stream()) {
      return true;
    }
    if (!(envelope.get("stream_options") instanceof Json.Obj options)) {
      return false;
    }
    Json include = Envelope.present(options, "include_usage");
    return include != null && Boolean.TRUE.equals(Lax.bool(include));
  }
}
