// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.inference.Json;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** One run of {@code kvoyctl} in this process. */
record Ran(int status, String out, String err) {

  static Ran kvoyctl(String... args) {
    return withInput(List.of(), args);
  }

  static Ran withInput(List<String> lines, String... args) {
    StringBuilder text = new StringBuilder();
    lines.forEach(line -> text.append(line).append('\n'));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    int status =
        Kvoyctl.execute(
            new ByteArrayInputStream(text.toString().getBytes(StandardCharsets.UTF_8)),
            out,
            err,
            args);
    return new Ran(
        status, out.toString(StandardCharsets.UTF_8), err.toString(StandardCharsets.UTF_8));
  }

  /** Each line of the output, read. */
  List<Json.Obj> answers() {
    return out.lines().map(Vectors::object).toList();
  }
}
