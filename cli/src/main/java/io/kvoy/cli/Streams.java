// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import java.io.InputStream;
import java.io.OutputStream;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;

/**
 * Where a command reads and writes; all text is UTF-8, whatever the locale says.
 *
 * @param in JSON lines
 * @param out answers
 * @param err words for people
 */
record Streams(InputStream in, OutputStream out, OutputStream err) {

  /** {@link #out} for text, flushed at line ends. */
  PrintWriter outText() {
    return new PrintWriter(new OutputStreamWriter(out, StandardCharsets.UTF_8), true);
  }

  /** {@link #err} for text, flushed at line ends. */
  PrintWriter errText() {
    return new PrintWriter(new OutputStreamWriter(err, StandardCharsets.UTF_8), true);
  }
}
