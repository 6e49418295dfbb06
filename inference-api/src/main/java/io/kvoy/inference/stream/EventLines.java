// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

/**
 * The lines of a server-sent event stream (WHATWG HTML, "Interpreting an event stream"), found in
 * chunks cut anywhere. Keeps no bytes: data goes to the listener as slices of the chunk.
 *
 * <p>Lines end in LF, CR or CRLF; comments and fields other than {@code data} are skipped; an empty
 * line ends an event. One instance per stream, one thread.
 */
final class EventLines {
  private static final byte[] DATA = {'d', 'a', 't', 'a', ':'};

  /** Hears the events of one stream. */
  interface Listener {
    /** Part of the data of the event under way. */
    void data(byte[] chunk, int from, int to);

    /** A line of data has ended. */
    void endOfLine();

    /** An event has ended; {@code next} is the index in the chunk behind it. */
    void endOfEvent(byte[] chunk, int next);
  }

  private enum Place {
    /** Within the field name, {@code matched} bytes of {@code data:} seen. */
    FIELD_NAME,
    /** Behind the colon, where one space does not count. */
    AFTER_COLON,
    /** In the value of a data field. */
    DATA_VALUE,
    /** In a line of no interest. */
    OTHER_LINE
  }

  private final Listener listener;
  private Place place = Place.FIELD_NAME;
  private int matched;
  private boolean lineIsEmpty = true;
  private boolean afterCr;

  EventLines(Listener listener) {
    this.listener = listener;
  }

  void feed(byte[] chunk, int from, int to) {
    int i = from;
    while (i < to) {
      if (afterCr) {
        afterCr = false;
        if (chunk[i] == '\n') {
          i++;
          continue;
        }
      }
      i =
          switch (place) {
            case FIELD_NAME -> fieldName(chunk, i);
            case AFTER_COLON -> {
              place = Place.DATA_VALUE;
              yield chunk[i] == ' ' ? i + 1 : i;
            }
            case DATA_VALUE -> {
              int end = endOfLine(chunk, i, to);
              if (end > i) {
                listener.data(chunk, i, end);
              }
              yield end < to ? lineEnd(chunk, end) : end;
            }
            case OTHER_LINE -> {
              int end = endOfLine(chunk, i, to);
              yield end < to ? lineEnd(chunk, end) : end;
            }
          };
    }
  }

  private int fieldName(byte[] chunk, int i) {
    byte b = chunk[i];
    if (b == '\n' || b == '\r') {
      return lineEnd(chunk, i);
    }
    lineIsEmpty = false;
    if (b == DATA[matched]) {
      matched++;
      if (matched == DATA.length) {
        place = Place.AFTER_COLON;
      }
    } else {
      place = Place.OTHER_LINE;
    }
    return i + 1;
  }

  private int lineEnd(byte[] chunk, int i) {
    afterCr = chunk[i] == '\r';
    boolean empty = lineIsEmpty;
    boolean data = place == Place.DATA_VALUE || place == Place.AFTER_COLON;
    place = Place.FIELD_NAME;
    matched = 0;
    lineIsEmpty = true;
    if (empty) {
      listener.endOfEvent(chunk, i + 1);
    } else if (data) {
      listener.endOfLine();
    }
    return i + 1;
  }

  private static int endOfLine(byte[] chunk, int from, int to) {
    int i = from;
    while (i < to && chunk[i] != '\n' && chunk[i] != '\r') {
      i++;
    }
    return i;
  }
}
