// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Walks over one JSON document that arrives in slices cut anywhere and tells what stands at a few
 * places. Nothing is built and nothing kept but one short key and one short value, so a document of
 * any size costs the same memory, and a slice no allocation. It follows well-formed documents; of
 * others it may report what stood before the fault, and says so at the end.
 *
 * <p>Why not a tree: a {@code response.completed} event repeats the whole answer, a body with
 * log-probabilities has megabytes, and of either only three numbers count. One pass costs about two
 * nanoseconds per byte.
 *
 * @param <F> names of the places
 */
final class JsonScanner<F extends Enum<F>> {
  /** Longest key or string value that is looked at; longer ones match nothing. */
  private static final int MAX_KEPT_BYTES = 128;

  /** Longest integer that is read as a number: below 2^63 for sure. */
  private static final int MAX_DIGITS = 18;

  /** What a value turned out to be. */
  enum Kind {
    TEXT,
    EMPTY_TEXT,
    /** A non-negative or negative integer; see {@link Listener#value}. */
    INTEGER,
    /** A number that is no integer or too large. */
    OTHER_NUMBER,
    NULL,
    BOOLEAN,
    OBJECT,
    ARRAY
  }

  /** Hears what stands at the wanted places, in document order. */
  interface Listener<F> {
    /**
     * @param number the value of an {@link Kind#INTEGER}, else 0
     * @param scanner for {@link JsonScanner#text()} of a {@link Kind#TEXT}
     */
    void value(F field, Kind kind, long number, JsonScanner<?> scanner);
  }

  private enum State {
    VALUE,
    VALUE_OR_END,
    KEY,
    KEY_OR_END,
    IN_KEY,
    IN_KEY_ESCAPE,
    COLON,
    IN_STRING,
    IN_STRING_ESCAPE,
    IN_NUMBER,
    IN_WORD,
    AFTER_VALUE,
    SKIPPING,
    SKIPPING_STRING,
    SKIPPING_ESCAPE,
    DONE,
    BROKEN
  }

  private final Listener<F> listener;

  /**
   * Containers on the way to a wanted place; others are skipped whole, so the paths bound the
   * depth.
   */
  private final List<JsonPaths<F>> open = new ArrayList<>();

  /** Bit {@code d} tells whether the container at depth {@code d} is an object. */
  private long objects;

  private final byte[] kept = new byte[MAX_KEPT_BYTES];
  private State state = State.VALUE;
  private @Nullable JsonPaths<F> paths;
  private int keptLength;
  private int skippedDepth;
  private long number;
  private int digits;
  private boolean negative;
  private boolean integer;
  private byte wordStart;

  JsonScanner(Listener<F> listener) {
    this.listener = listener;
  }

  /** Begins a new document. */
  void reset(JsonPaths<F> root) {
    state = State.VALUE;
    open.clear();
    paths = root;
  }

  /** The string just reported, cut at {@value #MAX_KEPT_BYTES} bytes, escapes as written. */
  String text() {
    return new String(kept, 0, Math.min(keptLength, MAX_KEPT_BYTES), ISO_8859_1);
  }

  /** Whether the string just reported is this ASCII word. */
  boolean textIs(byte[] word) {
    if (keptLength != word.length) {
      return false;
    }
    for (int i = 0; i < word.length; i++) {
      if (kept[i] != word[i]) {
        return false;
      }
    }
    return true;
  }

  /**
   * Whether exactly one whole document has passed. A number at the top level ends only with its
   * document.
   */
  boolean finish() {
    if (open.isEmpty() && (state == State.IN_NUMBER || state == State.IN_WORD)) {
      endScalar();
    }
    return state == State.DONE;
  }

  void feed(byte[] in, int from, int to) {
    int i = from;
    while (i < to) {
      switch (state) {
        case IN_STRING -> i = string(in, i, to);
        case SKIPPING -> i = skip(in, i, to);
        case SKIPPING_STRING -> i = skipString(in, i, to);
        case IN_NUMBER -> i = number(in, i);
        case IN_WORD -> i = word(in, i);
        case IN_KEY -> i = key(in, i, to);
        case BROKEN -> {
          return;
        }
        case VALUE,
            VALUE_OR_END,
            KEY,
            KEY_OR_END,
            IN_KEY_ESCAPE,
            COLON,
            IN_STRING_ESCAPE,
            AFTER_VALUE,
            SKIPPING_ESCAPE,
            DONE -> {
          single(in[i]);
          i++;
        }
      }
    }
  }

  private void single(byte b) {
    switch (state) {
      case IN_KEY_ESCAPE -> {
        // No wanted key has an escape: spoil this one.
        keptLength = MAX_KEPT_BYTES + 1;
        state = State.IN_KEY;
      }
      case IN_STRING_ESCAPE -> {
        keep(b);
        state = State.IN_STRING;
      }
      case SKIPPING_ESCAPE -> state = State.SKIPPING_STRING;
      case VALUE, VALUE_OR_END, KEY, KEY_OR_END, COLON, AFTER_VALUE, DONE -> {
        if (b != ' ' && b != '\n' && b != '\r' && b != '\t') {
          structure(b);
        }
      }
      case IN_KEY, IN_STRING, IN_NUMBER, IN_WORD, SKIPPING, SKIPPING_STRING, BROKEN ->
          throw new IllegalStateException("handled by the caller: " + state);
    }
  }

  private void structure(byte b) {
    if (state == State.COLON) {
      state = b == ':' ? State.VALUE : State.BROKEN;
    } else if (state == State.DONE) {
      state = State.BROKEN;
    } else if (state == State.KEY || state == State.KEY_OR_END) {
      if (b == '"') {
        keptLength = 0;
        state = State.IN_KEY;
      } else if (b == '}' && state == State.KEY_OR_END) {
        close();
      } else {
        state = State.BROKEN;
      }
    } else if (state == State.AFTER_VALUE) {
      afterValue(b);
    } else if (b == ']' && state == State.VALUE_OR_END) {
      close();
    } else {
      startValue(b);
    }
  }

  private void afterValue(byte b) {
    boolean object = (objects >>> (open.size() - 1) & 1) == 1;
    if (b == ',') {
      paths = open.getLast().element();
      state = object ? State.KEY : State.VALUE;
    } else if (b == (object ? '}' : ']')) {
      close();
    } else {
      state = State.BROKEN;
    }
  }

  private void startValue(byte b) {
    switch (b) {
      case '{', '[' -> openContainer(b == '{');
      case '"' -> {
        keptLength = 0;
        state = State.IN_STRING;
      }
      case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' -> {
        negative = b == '-';
        number = negative ? 0 : b - '0';
        digits = negative ? 0 : 1;
        integer = true;
        state = State.IN_NUMBER;
      }
      case 't', 'f', 'n', 'N', 'I' -> {
        wordStart = b;
        state = State.IN_WORD;
      }
      default -> state = State.BROKEN;
    }
  }

  private void openContainer(boolean object) {
    JsonPaths<F> here = paths;
    report(object ? Kind.OBJECT : Kind.ARRAY, 0);
    if (here == null || !here.leadsOn()) {
      skippedDepth = 1;
      state = State.SKIPPING;
      return;
    }
    long bit = 1L << open.size();
    objects = object ? objects | bit : objects & ~bit;
    open.add(here);
    paths = here.element();
    state = object ? State.KEY_OR_END : State.VALUE_OR_END;
  }

  private void close() {
    open.removeLast();
    endValue();
  }

  private void endValue() {
    state = open.isEmpty() ? State.DONE : State.AFTER_VALUE;
  }

  private int key(byte[] in, int from, int to) {
    int i = from;
    while (i < to) {
      byte b = in[i++];
      if (b == '"') {
        JsonPaths<F> container = open.getLast();
        paths = keptLength > MAX_KEPT_BYTES ? null : container.child(kept, keptLength);
        state = State.COLON;
        return i;
      }
      if (b == '\\') {
        state = State.IN_KEY_ESCAPE;
        return i;
      }
      keep(b);
    }
    return i;
  }

  private int string(byte[] in, int from, int to) {
    int i = from;
    while (i < to) {
      byte b = in[i++];
      if (b == '"') {
        report(keptLength == 0 ? Kind.EMPTY_TEXT : Kind.TEXT, 0);
        endValue();
        return i;
      }
      if (b == '\\') {
        keep(b);
        state = State.IN_STRING_ESCAPE;
        return i;
      }
      keep(b);
    }
    return i;
  }

  private void keep(byte b) {
    if (keptLength < MAX_KEPT_BYTES) {
      kept[keptLength++] = b;
    } else {
      keptLength = MAX_KEPT_BYTES + 1;
    }
  }

  private int number(byte[] in, int i) {
    byte b = in[i];
    if (b >= '0' && b <= '9') {
      if (digits < MAX_DIGITS) {
        number = number * 10 + (b - '0');
      }
      digits++;
      return i + 1;
    }
    if (b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-') {
      integer = false;
      return i + 1;
    }
    if (b == 'I' && negative && digits == 0) {
      wordStart = b;
      state = State.IN_WORD;
      return i + 1;
    }
    endScalar();
    return i;
  }

  private int word(byte[] in, int i) {
    byte b = in[i];
    if ((b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z')) {
      return i + 1;
    }
    endScalar();
    return i;
  }

  private void endScalar() {
    if (state == State.IN_NUMBER) {
      boolean exact = integer && digits > 0 && digits <= MAX_DIGITS;
      report(exact ? Kind.INTEGER : Kind.OTHER_NUMBER, exact ? (negative ? -number : number) : 0);
    } else {
      report(
          switch (wordStart) {
            case 'n' -> Kind.NULL;
            case 't', 'f' -> Kind.BOOLEAN;
            default -> Kind.OTHER_NUMBER;
          },
          0);
    }
    endValue();
  }

  private int skip(byte[] in, int from, int to) {
    int i = from;
    while (i < to) {
      byte b = in[i++];
      if (b == '"') {
        state = State.SKIPPING_STRING;
        return i;
      }
      if (b == '{' || b == '[') {
        skippedDepth++;
      } else if (b == '}' || b == ']') {
        skippedDepth--;
        if (skippedDepth == 0) {
          endValue();
          return i;
        }
      }
    }
    return i;
  }

  private int skipString(byte[] in, int from, int to) {
    int i = from;
    while (i < to) {
      byte b = in[i++];
      if (b == '"') {
        state = State.SKIPPING;
        return i;
      }
      if (b == '\\') {
        state = State.SKIPPING_ESCAPE;
        return i;
      }
    }
    return i;
  }

  private void report(Kind kind, long value) {
    JsonPaths<F> here = paths;
    F field = here == null ? null : here.field();
    if (field != null) {
      listener.value(field, kind, value, this);
    }
  }
}
