// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.JsonWriter;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Map;

/**
 * One JSON line in, one JSON line out, in order, each flushed before the next is read: a program
 * may keep {@code kvoyctl} open and ask it line by line.
 *
 * <p>A line that cannot be used is answered {@code {"error":"…"}} and the rest go on. Lines are
 * bounded by {@link JsonLimits#DEFAULTS}.
 */
abstract class LineCommand {

  private static final int MAX_LINE_BYTES = JsonLimits.DEFAULTS.maxDocumentBytes();

  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  private final Streams streams;

  LineCommand(Streams streams) {
    this.streams = streams;
  }

  /**
   * Answers one line.
   *
   * @param body the line without its end
   * @param line the same, read
   */
  abstract Json.Obj answer(byte[] body, Json.Obj line) throws BadLine;

  /** Answers all of standard input; returns the exit status. */
  final int answerAll() {
    int status = Kvoyctl.ANSWERED;
    try {
      ByteArrayOutputStream line = new ByteArrayOutputStream(1 << 12);
      for (Line end = read(line); end != Line.NONE; end = read(line)) {
        Json.Obj answer;
        try {
          answer = answer(end, line.toByteArray());
        } catch (BadLine bad) {
          status = Kvoyctl.PROBLEM;
          answer = Json.Obj.of(Map.of("error", new Json.Str(bad.text())));
        }
        streams.out().write(withLineEnd(JsonWriter.bytes(answer)));
        streams.out().flush();
      }
      return status;
    } catch (IOException broken) {
      return problem("cannot read or write on: " + broken.getMessage());
    }
  }

  /** Tells a person what is wrong; returns the exit status. */
  final int problem(String text) {
    streams.errText().println("kvoyctl: " + text);
    return Kvoyctl.PROBLEM;
  }

  private Json.Obj answer(Line end, byte[] body) throws BadLine {
    if (end == Line.TOO_LONG) {
      throw new BadLine("the line is longer than " + MAX_LINE_BYTES + " bytes");
    }
    return switch (READER.read(body)) {
      case JsonRead.Failure(JsonRead.Reason reason, long offset) ->
          throw new BadLine(
              reason.sentence().replace("the body", "the line") + " (byte " + offset + ")");
      case JsonRead.Document document when document.value() instanceof Json.Obj object ->
          answer(body, object);
      case JsonRead.Document _ -> throw new BadLine("the line must be a JSON object");
    };
  }

  private enum Line {
    /** The input is over. */
    NONE,
    WHOLE,
    TOO_LONG
  }

  private Line read(ByteArrayOutputStream line) throws IOException {
    line.reset();
    InputStream in = streams.in();
    int read = in.read();
    if (read < 0) {
      return Line.NONE;
    }
    Line kind = Line.WHOLE;
    for (; read >= 0 && read != '\n'; read = in.read()) {
      if (line.size() == MAX_LINE_BYTES) {
        kind = Line.TOO_LONG;
      } else {
        line.write(read);
      }
    }
    return kind;
  }

  /** In one write, so that a reader never sees half a line of ours. */
  private static byte[] withLineEnd(byte[] text) {
    byte[] whole = java.util.Arrays.copyOf(text, text.length + 1);
    whole[text.length] = '\n';
    return whole;
  }
}
