// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import io.kvoy.inference.stream.JsonScanner.Kind;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;

/**
 * Takes the usage chunk out of an OpenAI stream whose client did not ask for one ({@code
 * dialect.StreamOptions} put the question in). That chunk is an event with an empty {@code choices}
 * and a {@code usage} object; everything else goes through byte for byte, at once: an event is held
 * back only while it still may be the one, and a chunk with text shows in its first hundred bytes
 * that it is not.
 *
 * <p>One instance per exchange, one thread, chunks in order. Holds at most {@value #MAX_HELD_BYTES}
 * bytes.
 */
public final class UsageChunkFilter {
  /** A usage chunk has under a kilobyte; an event that is longer and still undecided is not one. */
  private static final int MAX_HELD_BYTES = 1 << 14;

  private enum Place {
    /** An element of {@code choices}: this chunk carries something for the client. */
    CHOICE,
    CHOICES,
    USAGE
  }

  private static final JsonPaths<Place> PATHS =
      new JsonPaths<Place>()
          .with("choices", Place.CHOICES)
          .with("choices[]", Place.CHOICE)
          .with("usage", Place.USAGE);

  private final JsonScanner<Place> scanner =
      new JsonScanner<>((place, kind, _, _) -> value(place, kind));
  private final EventLines lines = new EventLines(new Events());
  private final ByteArrayOutputStream held = new ByteArrayOutputStream();
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  private boolean hasChoices;
  private boolean hasUsage;
  private boolean keep;

  /** The last chunk ended between the two bytes of an event's last CRLF. */
  private boolean splitLineEnd;

  /** The event that just ended was taken out. */
  private boolean removed;

  private long removedEvents;

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
    boolean untouched = held.size() == 0;
    if (splitLineEnd && from < chunkEnd) {
      splitLineEnd = false;
      eventStart += bytes[from] == '\n' ? 1 : 0;
      decided = removed ? eventStart : decided;
    }
    lines.feed(bytes, from, chunkEnd);
    if (keep) {
      release(bytes, chunkEnd);
    } else {
      forward(bytes, eventStart);
      held.write(bytes, eventStart, chunkEnd - eventStart);
      keep = held.size() > MAX_HELD_BYTES;
      untouched &= held.size() == 0;
      decided = chunkEnd;
      if (keep) {
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
    byte[] rest = isUsageChunk() ? new byte[0] : held.toByteArray();
    removedEvents += held.size() > 0 && rest.length == 0 ? 1 : 0;
    held.reset();
    return ByteBuffer.wrap(rest);
  }

  /** Number of events taken out; one for an answer that went well. */
  public long removedEvents() {
    return removedEvents;
  }

  private void value(Place place, Kind kind) {
    switch (place) {
      case CHOICES -> hasChoices |= kind == Kind.ARRAY;
      case CHOICE -> keep = true;
      case USAGE -> hasUsage |= kind == Kind.OBJECT;
    }
  }

  private boolean isUsageChunk() {
    return scanner.finish() && hasChoices && hasUsage && !keep;
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
        held.reset();
        decided = behind;
      } else if (held.size() > 0) {
        release(chunk, behind);
      }
      eventStart = behind;
      hasChoices = false;
      hasUsage = false;
      keep = false;
      scanner.reset(PATHS);
    }
  }
}
