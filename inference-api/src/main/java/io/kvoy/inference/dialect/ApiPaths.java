// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;

/**
 * Which API a request path selects. The answer decides about policy and about the pick alike.
 *
 * <p>The rule is generous on purpose: a path that some proxy or worker between here and the model
 * could take for an inference path is one. Uvicorn undoes percent-escapes before it routes, {@code
 * %2F} included, and Envoy may merge slashes and resolve dots; a stricter reading would let {@code
 * /v1/%63hat/completions} past the rules and still reach the model. The price of a wrong yes is
 * small: the body is parsed and the worker answers 404.
 *
 * <ol>
 *   <li>cut at the first {@code ?} or {@code #};
 *   <li>undo percent-escapes, once;
 *   <li>merge slashes, resolve {@code .} and {@code ..}, drop a slash at the end;
 *   <li>compare with the canonical paths, case-sensitively, with and without the configured prefix.
 * </ol>
 *
 * <p>Work is linear in the path, whose length the proxy's header limit bounds. Immutable; any
 * thread.
 */
public final class ApiPaths {
  private final String prefix;

  /**
   * @param prefix path in front of {@code /v1/…} at this gateway, such as {@code /llm}; empty for
   *     none
   */
  public ApiPaths(String prefix) {
    String normal = normalized(prefix);
    this.prefix = normal.equals("/") ? "" : normal;
  }

  /** The API that this path selects; {@link ApiKind#OTHER} for everything else. */
  public ApiKind kindOf(String path) {
    ApiKind exact = exact(path);
    if (exact != ApiKind.OTHER) {
      return exact;
    }
    String normal = normalized(path);
    if (!prefix.isEmpty() && normal.startsWith(prefix)) {
      ApiKind behindPrefix = exact(normal.substring(prefix.length()));
      if (behindPrefix != ApiKind.OTHER) {
        return behindPrefix;
      }
    }
    return exact(normal);
  }

  private static ApiKind exact(String path) {
    return switch (path) {
      case "/v1/chat/completions" -> ApiKind.CHAT_COMPLETIONS;
      case "/v1/completions" -> ApiKind.COMPLETIONS;
      case "/v1/responses" -> ApiKind.RESPONSES;
      case "/v1/messages" -> ApiKind.MESSAGES;
      case "/v1/messages/count_tokens" -> ApiKind.COUNT_TOKENS;
      default -> ApiKind.OTHER;
    };
  }

  private static String normalized(String path) {
    String bare = path;
    for (char end : new char[] {'?', '#'}) {
      int cut = bare.indexOf(end);
      bare = cut < 0 ? bare : bare.substring(0, cut);
    }
    Deque<String> segments = new ArrayDeque<>();
    for (String segment : percentDecoded(bare).split("/", -1)) {
      if (segment.equals("..")) {
        segments.pollLast();
      } else if (!segment.isEmpty() && !segment.equals(".")) {
        segments.addLast(segment);
      }
    }
    return "/" + String.join("/", segments);
  }

  private static String percentDecoded(String path) {
    if (path.indexOf('%') < 0) {
      return path;
    }
    byte[] bytes = path.getBytes(StandardCharsets.UTF_8);
    int length = 0;
    for (int i = 0; i < bytes.length; i++) {
      int value = bytes[i] == '%' && i + 2 < bytes.length ? hex(bytes[i + 1], bytes[i + 2]) : -1;
      if (value >= 0) {
        bytes[length] = (byte) value;
        i += 2;
      } else {
        bytes[length] = bytes[i];
      }
      length++;
    }
    return new String(Arrays.copyOf(bytes, length), StandardCharsets.UTF_8);
  }

  private static int hex(byte high, byte low) {
    int h = Character.digit(high, 16);
    int l = Character.digit(low, 16);
    return h < 0 || l < 0 ? -1 : h * 16 + l;
  }
}
