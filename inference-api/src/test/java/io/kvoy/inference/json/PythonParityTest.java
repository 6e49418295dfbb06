// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.inference.TestFiles;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;

/** What CPython's {@code json} module and {@code repr(float)} said, recorded once. */
class PythonParityTest {
  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  private static Json.Obj row(String line) {
    return (Json.Obj) ((JsonRead.Document) READER.read(line.getBytes(UTF_8))).value();
  }

  private static byte[] base64(Json.Obj row, String field) {
    return Base64.getDecoder().decode(((Json.Str) Objects.requireNonNull(row.get(field))).value());
  }

  @Test
  void loadsAcceptsRefusesAndMeansTheSameAsPython() {
    List<String> lines = TestFiles.lines("vectors/python/json-loads.jsonl");
    List<String> differences = new ArrayList<>();
    int accepted = 0;
    for (String line : lines) {
      Json.Obj row = row(line);
      byte[] body = base64(row, "b");
      String expected = row.get("v") instanceof Json.Str(String v) ? v : "refused";
      accepted += expected.equals("refused") ? 0 : 1;
      String seen =
          switch (READER.read(body)) {
            case JsonRead.Document document -> PythonJson.dumps(document.value());
            case JsonRead.Failure _ -> "refused";
          };
      if (!seen.equals(expected)) {
        differences.add(new String(body, UTF_8) + " -> " + seen + " but Python " + expected);
      }
    }
    assertThat(differences).isEmpty();
    assertThat(accepted).isBetween(400, lines.size() - 400);
  }

  @Test
  void floatsAreWrittenLikeRepr() {
    List<String> differences = new ArrayList<>();
    for (String line : TestFiles.lines("vectors/python/float-repr.txt")) {
      double value = Double.longBitsToDouble(Long.parseUnsignedLong(line.substring(0, 16), 16));
      String seen = PythonJson.floatRepr(value);
      if (!seen.equals(line.substring(17))) {
        differences.add(seen + " but Python " + line.substring(17));
      }
    }
    assertThat(differences).isEmpty();
  }

  @Test
  void dumpsEqualsPythonForEveryStyle() {
    for (String line : TestFiles.lines("vectors/python/json-dumps.jsonl")) {
      Json.Obj row = row(line);
      String valueText = ((Json.Str) Objects.requireNonNull(row.get("value"))).value();
      Json value = ((JsonRead.Document) READER.read(valueText.getBytes(UTF_8))).value();
      boolean ascii = new Json.Bool(true).equals(row.get("ensure_ascii"));
      boolean sorted = new Json.Bool(true).equals(row.get("sort_keys"));
      PythonJson.Style style = new PythonJson.Style(ascii, null, ", ", ": ", sorted);
      if (row.get("indent") instanceof Json.Int(long spaces)) {
        style = style.indented((int) spaces);
      }
      String seen = PythonJson.dumps(value, style);
      byte[] expected = base64(row, "out");
      assertThat(seen).as(line).isEqualTo(SurrogatePass.decode(expected, 0, expected.length));
    }
  }

  @Test
  void writerIsCompactAndAlwaysUtf8() {
    Json value = row("{\"a\": [1, 2.50], \"é\": \"\\ud83d\"}");
    assertThat(new String(JsonWriter.bytes(value), UTF_8))
        .isEqualTo("{\"a\":[1,2.5],\"\\u00e9\":\"\\ud83d\"}");
    assertThat(new String(JsonWriter.bytes(new Json.Str("é🙂")), UTF_8)).isEqualTo("\"é🙂\"");
  }
}
