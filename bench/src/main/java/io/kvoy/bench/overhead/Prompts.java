// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Chat requests of a wanted size, ready to be sent: whole HTTP/1.1 messages made of buffers that
 * are shared between requests, so that making one costs next to nothing.
 *
 * <p>Any thread.
 */
final class Prompts {
  /** Where a prompt may begin in the text; each number of a cold prompt is used once anyway. */
  private static final int OFFSETS = 64;

  /** What an answer and the next question add to a conversation. */
  private static final int TURN_TOKENS = 200;

  private final String text;
  private final double charsPerToken;
  private final AtomicLong number = new AtomicLong();

  /**
   * @param text what prompts are cut from; longer than any of them
   * @param charsPerToken of that text, in the tokenizer in use
   */
  Prompts(String text, double charsPerToken) {
    this.text = text;
    this.charsPerToken = charsPerToken;
  }

  /** Makes the next request of a connection. */
  interface Source {
    /**
     * The message's buffers in order, to be consumed.
     *
     * @param connection 0 and up
     */
    ByteBuffer[] next(int connection);
  }

  /** Prompts of about {@code tokens} tokens that share nothing but the template with any other. */
  Source cold(int tokens, boolean stream, String how) {
    String[] texts = new String[OFFSETS];
    byte[][] bodies = new byte[OFFSETS][];
    for (int i = 0; i < OFFSETS; i++) {
      texts[i] = cut(i, OFFSETS, tokens);
      bodies[i] = escaped(texts[i]);
    }
    byte[] before = ascii(opening(stream) + "{\"role\":\"user\",\"content\":\"");
    byte[] after = ascii("\"}]}");
    return _ -> {
      long n = number.incrementAndGet();
      byte[] body = bodies[(int) (n % OFFSETS)];
      // The first words differ, so no block and no remembered piece of text is shared.
      byte[] unique = ascii("Case " + n * 7_919 + ". ");
      return message(how, before, unique, body, after);
    };
  }

  /**
   * The next turn of a conversation of about {@code tokens} tokens, one conversation per
   * connection: each request has all of it and one more answer and question, until it has grown by
   * a tenth and starts anew from the same beginning.
   */
  Source multiTurn(int tokens, int connections, boolean stream, String how) {
    int turnTokens = Math.min(TURN_TOKENS, tokens / 2);
    int turns = Math.max(4, tokens / 10 / turnTokens);
    long run = number.incrementAndGet();
    byte[] opening = ascii(opening(stream));
    byte[][] begin = new byte[connections][];
    byte[][] grown = new byte[connections][0];
    int[] turn = new int[connections];
    for (int c = 0; c < connections; c++) {
      begin[c] =
          ascii(
              "{\"role\":\"user\",\"content\":\"Talk "
                  + run
                  + "-"
                  + c
                  + ". "
                  + new String(
                      escaped(cut(c, connections, tokens - turnTokens)),
                      StandardCharsets.ISO_8859_1)
                  + "\"}");
    }
    byte[] after = ascii("]}");
    return connection -> {
      if (turn[connection]++ % turns == 0) {
        grown[connection] = new byte[0];
      }
      byte[] more = turn(number.incrementAndGet(), turnTokens);
      byte[] all = new byte[grown[connection].length + more.length];
      System.arraycopy(grown[connection], 0, all, 0, grown[connection].length);
      System.arraycopy(more, 0, all, grown[connection].length, more.length);
      grown[connection] = all;
      return message(how, opening, begin[connection], all, after);
    };
  }

  private byte[] turn(long n, int tokens) {
    String answer = cut((int) (n % 1_009), 1_009, tokens - tokens / 4);
    String question = cut((int) (n % 1_013), 1_013, tokens / 4);
    return ascii(
        ",{\"role\":\"assistant\",\"content\":\"Answer "
            + n
            + ". "
            + new String(escaped(answer), StandardCharsets.ISO_8859_1)
            + "\"},{\"role\":\"user\",\"content\":\""
            + new String(escaped(question), StandardCharsets.ISO_8859_1)
            + "\"}");
  }

  private String cut(int which, int of, int tokens) {
    int chars = (int) Math.min(text.length() - 1L, Math.round(tokens * charsPerToken));
    int from = (int) ((long) (text.length() - chars) * which / of);
    return text.substring(from, from + chars);
  }

  private static String opening(boolean stream) {
    return "{\"model\":\"m\",\"max_tokens\":100,\"stream\":"
        + stream
        + (stream ? ",\"stream_options\":{\"include_usage\":true}" : "")
        + ",\"messages\":[";
  }

  private static ByteBuffer[] message(String how, byte[]... parts) {
    int length = 0;
    for (byte[] part : parts) {
      length += part.length;
    }
    ByteBuffer[] all = new ByteBuffer[parts.length + 1];
    all[0] =
        ByteBuffer.wrap(
            ascii(
                "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\n"
                    + "content-type: application/json\r\n"
                    + (how.isEmpty() ? "" : "x-do: " + how + "\r\n")
                    + "content-length: "
                    + length
                    + "\r\n\r\n"));
    for (int i = 0; i < parts.length; i++) {
      all[i + 1] = ByteBuffer.wrap(parts[i]);
    }
    return all;
  }

  /** The inside of a JSON string, in ASCII. */
  private static byte[] escaped(String some) {
    String quoted = JsonWriter.text(new Json.Str(some));
    return quoted.substring(1, quoted.length() - 1).getBytes(StandardCharsets.US_ASCII);
  }

  private static byte[] ascii(String some) {
    return some.getBytes(StandardCharsets.US_ASCII);
  }
}
