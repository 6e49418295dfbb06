// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import io.kvoy.inference.stream.JsonScanner.Kind;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/**
 * Takes the usage chunk out of an OpenAI stream whose client did not ask for one ({@code
 * dialect.StreamOptions} put the question in). That chunk is an event with an empty {@code choices}
 * and a {@code usage} object; everything else goes through byte for byte, at once: an event is held
 * back only until it is whole, which it is when it comes in one piece.
 *
 * <p>vLLM 0.32 ({@code openai/chat_completion/serving.py}, {@code openai/completion/serving.py})
 * stamps {@code system_fingerprint} on the chunk that ends a choice, unless a usage chunk follows,
 * which then has it. So the ending chunk waits for the next event, and gets the stamp of the usage
 * chunk that is taken out. For answers of one choice only: with more, the first ending would wait
 * for the last.
 *
 * <p>One instance per exchange, one thread, chunks in order. Holds at most twice {@value
 * #MAX_HELD_BYTES} bytes.
 */
public final class UsageChunkFilter {
  /** A usage chunk has under a kilobyte; an event that is longer and still undecided is not one. */
  private static final int MAX_HELD_BYTES = 1 << 14;

  private enum Place {
    /** An element of {@code choices}: this chunk carries something for the client. */
    CHOICE,
    CHOICES,
    FINISH,
    FINGERPRINT,
    USAGE
  }

  private static final JsonPaths<Place> PATHS =
      new JsonPaths<Place>()
          .with("choices", Place.CHOICES)
          .with("choices[]", Place.CHOICE)
          .with("choices[].finish_reason", Place.FINISH)
          .with("system_fingerprint", Place.FINGERPRINT)
          .with("usage", Place.USAGE);

  private final JsonScanner<Place> scanner =
      new JsonScanner<>((place, kind, _, at) -> value(place, kind, at));
  private final EventLines lines = new EventLines(new Events());
  private final ByteArrayOutputStream held = new ByteArrayOutputStream();
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  /** The event that ends the choice, whole, until it is known what follows it. */
  private final ByteArrayOutputStream ending = new ByteArrayOutputStream();

  private boolean hasChoices;
  private boolean hasChoice;
  private boolean hasUsage;
  private boolean finishes;
  private @Nullable String fingerprint;

  /** The event under way is too long to be one of those that matter. */
  private boolean keep;

  /** The last chunk ended between the two bytes of an event's last CRLF. */
  private boolean splitLineEnd;

  /** The event that just ended was taken out. */
  private boolean removed;

  private long removedEvents;

  /** Nothing of the chunk under way was held back, taken out or changed. */
  private boolean untouched;

  /** Index in the chunk under way up to which bytes have been decided about. */
  private int decided;

  /** Index in the chunk under way where the event under way begins. */
  private int eventStart;

  private int chunkEnd;

  public UsageChunkFilter() {
    scanner.reset(PATHS);
  }

  /**
   * The bytes to forward in place of this chunk, possibly none. The answer is this very buffer when
   * nothing changes; the chunk's position and limit stay.
   */
  public ByteBuffer filter(ByteBuffer chunk) {
    byte[] bytes;
    int from;
    if (chunk.hasArray()) {
      bytes = chunk.array();
      from = chunk.arrayOffset() + chunk.position();
    } else {
      bytes = new byte[chunk.remaining()];
      chunk.duplicate().get(bytes);
      from = 0;
    }
    chunkEnd = from + chunk.remaining();
    decided = from;
    eventStart = from;
    untouched = held.size() == 0 && ending.size() == 0;
    if (splitLineEnd && from < chunkEnd) {
      splitLineEnd = false;
      eventStart += bytes[from] == '\n' ? 1 : 0;
      if (ending.size() > 0) {
        ending.write(bytes, from, eventStart - from);
        decided = eventStart;
      }
      decided = removed ? eventStart : decided;
    }
    lines.feed(bytes, from, chunkEnd);
    if (keep) {
      releaseEnding(null);
      release(bytes, chunkEnd);
    } else {
      forward(bytes, eventStart);
      held.write(bytes, eventStart, chunkEnd - eventStart);
      keep = held.size() > MAX_HELD_BYTES;
      untouched &= held.size() == 0;
      decided = chunkEnd;
      if (keep) {
        releaseEnding(null);
        release(bytes, chunkEnd);
      }
    }
    if (untouched && out.size() == chunk.remaining()) {
      out.reset();
      return chunk;
    }
    ByteBuffer result = ByteBuffer.wrap(out.toByteArray());
    out.reset();
    return result;
  }

  /**
   * The stream is over: what was held back of an event that never ended, unless it is the usage
   * chunk itself.
   */
  public ByteBuffer end() {
    boolean isUsage = held.size() > 0 && isUsageChunk();
    releaseEnding(isUsage ? fingerprint : null);
    if (isUsage) {
      removedEvents++;
    } else {
      out.writeBytes(held.toByteArray());
    }
    held.reset();
    ByteBuffer rest = ByteBuffer.wrap(out.toByteArray());
    out.reset();
    return rest;
  }

  /** Number of events taken out; one for an answer that went well. */
  public long removedEvents() {
    return removedEvents;
  }

  private void value(Place place, Kind kind, JsonScanner<?> at) {
    switch (place) {
      case CHOICES -> hasChoices |= kind == Kind.ARRAY;
      case CHOICE -> hasChoice = true;
      case FINISH -> finishes |= kind == Kind.TEXT;
      case FINGERPRINT -> fingerprint = kind == Kind.TEXT ? at.text() : null;
      case USAGE -> hasUsage |= kind == Kind.OBJECT;
    }
  }

  private boolean isUsageChunk() {
    return scanner.finish() && hasChoices && hasUsage && !hasChoice && !keep;
  }

  /**
   * The waiting event goes out.
   *
   * @param stamp the fingerprint that it would have had, null to leave it as it is
   */
  private void releaseEnding(@Nullable String stamp) {
    if (ending.size() == 0) {
      return;
    }
    byte[] event = ending.toByteArray();
    ending.reset();
    out.writeBytes(
        stamp == null || !stamp.matches("[A-Za-z0-9._+-]{1,128}") ? event : stamped(event, stamp));
  }

  /** In place of a null that is there, else as the last field, where the schema has it. */
  private static byte[] stamped(byte[] event, String stamp) {
    String text = new String(event, StandardCharsets.ISO_8859_1);
    String field = "\"system_fingerprint\":\"" + stamp + '"';
    String none = "\"system_fingerprint\":null";
    // A quotation mark inside a JSON text is escaped, so this can be the field alone.
    int at = text.lastIndexOf(none);
    int brace = text.lastIndexOf('}');
    String result =
        at >= 0
            ? text.substring(0, at) + field + text.substring(at + none.length())
            : text.substring(0, brace) + ',' + field + text.substring(brace);
    return result.getBytes(StandardCharsets.ISO_8859_1);
  }

  /** What was held, then the chunk's bytes that are not decided about yet. */
  private void release(byte[] bytes, int to) {
    if (held.size() > 0) {
      out.writeBytes(held.toByteArray());
      held.reset();
    }
    forward(bytes, to);
  }

  private void forward(byte[] bytes, int to) {
    if (to > decided) {
      out.write(bytes, decided, to - decided);
      decided = to;
    }
  }

  private final class Events implements EventLines.Listener {
    @Override
    public void data(byte[] chunk, int from, int to) {
      scanner.feed(chunk, from, to);
    }

    @Override
    public void endOfLine() {
      // Lines of one event are joined by a line break, which JSON ignores.
    }

    @Override
    public void endOfEvent(byte[] chunk, int next) {
      int behind = next;
      if (chunk[next - 1] == '\r') {
        splitLineEnd = next == chunkEnd;
        behind += next < chunkEnd && chunk[next] == '\n' ? 1 : 0;
      }
      removed = isUsageChunk();
      if (removed) {
        removedEvents++;
        forward(chunk, eventStart);
        releaseEnding(fingerprint);
        held.reset();
        decided = behind;
        untouched = false;
      } else {
        if (ending.size() > 0) {
          forward(chunk, eventStart);
          releaseEnding(null);
        }
        if (finishes && !keep) {
          forward(chunk, eventStart);
          ending.writeBytes(held.toByteArray());
          ending.write(chunk, eventStart, behind - eventStart);
          held.reset();
          decided = behind;
        } else if (held.size() > 0) {
          release(chunk, behind);
        }
      }
      eventStart = behind;
      hasChoices = false;
      hasChoice = false;
      hasUsage = false;
      finishes = false;
      fingerprint = null;
      keep = false;
      scanner.reset(PATHS);
    }
  }
}
