// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.tokenizer.files.AddedToken;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Encodes prompts that come in pieces: control tokens by name, and texts in between that are
 * encoded each by itself. Whatever a text spells out, no control token comes of it.
 *
 * <p>Inside, the pieces are one string in which a lone low surrogate stands for each control token
 * and for each border between two texts. No text can have one, as such texts are refused. So {@link
 * SegmentCache} works for prompts in pieces as for any other, with a cut point behind each mark.
 *
 * <p>Thread-safe.
 */
public final class PieceEncoder {

  private static final char FIRST_MARK = Character.MIN_LOW_SURROGATE;

  /** Between two texts; stands for no token. */
  private static final char BORDER = Character.MAX_LOW_SURROGATE;

  private static final int MAX_CONTROL_TOKENS = BORDER - FIRST_MARK;

  private final Map<String, Character> marks = new HashMap<>();
  private final TextEncoder marked;

  /**
   * @param plain encodes texts without looking for added tokens in them
   * @param controlTokens the tokens that pieces may name
   * @param cacheBytes memory for remembered text; 0 or less for none
   */
  public PieceEncoder(TextEncoder plain, List<AddedToken> controlTokens, long cacheBytes) {
    int[] ids = controlTokens.stream().limit(MAX_CONTROL_TOKENS).mapToInt(AddedToken::id).toArray();
    for (int i = 0; i < ids.length; i++) {
      marks.putIfAbsent(controlTokens.get(i).content(), (char) (FIRST_MARK + i));
    }
    TextEncoder encoder = new MarkedEncoder(plain, ids);
    marked =
        cacheBytes > 0
            ? new SegmentCache(encoder, PieceEncoder::nextCut, PostProcessor.NONE, cacheBytes)
            : encoder;
  }

  /** A prompt under construction. Used by one thread. */
  public final class Prompt {
    private final StringBuilder text;
    private boolean isRefused;
    private boolean endsWithText;

    private Prompt(int expectedChars) {
      text = new StringBuilder(expectedChars);
    }

    /** Appends that control token. */
    public Prompt control(String token) {
      Character mark = marks.get(token);
      if (mark == null) {
        isRefused = true;
      } else {
        text.append(mark.charValue());
      }
      endsWithText = false;
      return this;
    }

    /** Appends a text of its own. */
    public Prompt text(String piece) {
      isRefused |= LoneSurrogates.indexOf(piece, 0, piece.length()) >= 0;
      if (endsWithText) {
        text.append(BORDER);
      }
      text.append(piece);
      endsWithText = true;
      return this;
    }

    /**
     * The ids of the whole prompt; null when a text has a lone surrogate, a control token is
     * unknown, or the encoder cannot keep a text free of control tokens.
     */
    public int @Nullable [] encode() {
      return isRefused ? null : marked.encode(text.toString(), false);
    }
  }

  /**
   * An empty prompt.
   *
   * @param expectedChars about so long it will be
   */
  public Prompt prompt(int expectedChars) {
    return new Prompt(expectedChars);
  }

  /** Memory of the remembered texts; the vocabulary is that of the encoder for whole texts. */
  public long memoryBytes() {
    return marked.memoryBytes();
  }

  private static int nextCut(String text, int from, int atLeast) {
    int at = from;
    while (true) {
      int mark = nextMark(text, at);
      if (mark < 0 || mark + 1 >= atLeast) {
        return mark < 0 ? -1 : mark + 1;
      }
      at = mark + 1;
    }
  }

  /** The first lone surrogate from there on, which must not be inside a pair; -1 without one. */
  private static int nextMark(String text, int from) {
    return LoneSurrogates.indexOf(text, from, text.length());
  }

  /** Marks become ids, what is between them is encoded piece by piece. */
  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  private record MarkedEncoder(TextEncoder plain, int[] controlIds) implements TextEncoder {

    @Override
    public int @Nullable [] encode(String text, boolean addSpecialTokens) {
      int[] ids = new int[text.length() / 3 + 16];
      int count = 0;
      int at = 0;
      while (true) {
        int mark = nextMark(text, at);
        int end = mark < 0 ? text.length() : mark;
        if (at < end) {
          int[] piece = plain.encode(text.substring(at, end), false);
          if (piece == null) {
            return null;
          }
          ids = withRoom(ids, count + piece.length);
          System.arraycopy(piece, 0, ids, count, piece.length);
          count += piece.length;
        }
        if (mark < 0) {
          return Arrays.copyOf(ids, count);
        }
        if (text.charAt(mark) != BORDER) {
          ids = withRoom(ids, count + 1);
          ids[count++] = controlIds[text.charAt(mark) - FIRST_MARK];
        }
        at = mark + 1;
      }
    }

    private static int[] withRoom(int[] ids, int needed) {
      return needed <= ids.length ? ids : Arrays.copyOf(ids, Math.max(needed, 2 * ids.length));
    }
  }
}
