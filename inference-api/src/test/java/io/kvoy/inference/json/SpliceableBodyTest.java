// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.BodyEdit.Put;
import io.kvoy.inference.json.BodyEdit.PutNested;
import io.kvoy.inference.json.BodyEdit.Remove;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SpliceableBodyTest {
  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  private static SpliceableBody body(String text) {
    byte[] bytes = text.getBytes(UTF_8);
    return SpliceableBody.of(bytes, (JsonRead.Document) READER.read(bytes));
  }

  private static String applied(String text, BodyEdit... edits) {
    return new String(body(text).apply(List.of(edits)), UTF_8);
  }

  @Test
  void replacementKeepsEveryOtherByte() {
    assertThat(
            applied(
                "{ \"x\" : 1.50 ,\n \"model\" : \"a\" , \"e\":\"\\u00e9\"}\n",
                new Put("model", new Json.Str("b"))))
        .isEqualTo("{ \"x\" : 1.50 ,\n \"model\" : \"b\" , \"e\":\"\\u00e9\"}\n");
  }

  @Test
  void repeatedKeysAreAllReplacedSoThatNoReaderSeesTheOldValue() {
    assertThat(
            applied("{\"model\":\"a\",\"mod\\u0065l\":\"c\"}", new Put("model", new Json.Str("b"))))
        .isEqualTo("{\"model\":\"b\",\"mod\\u0065l\":\"b\"}");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "{\"a\":1,\"r\":2,\"c\":3} | {\"a\":1,\"c\":3}",
        "{\"r\":2, \"c\":3} | {\"c\":3}",
        "{\"a\":1 , \"r\":2 } | {\"a\":1 }",
        "{ \"r\":2 } | { }",
        "{\"r\":1,\"r\":2,\"a\":3,\"r\":4} | {\"a\":3}",
        "{\"a\":1} | {\"a\":1}",
        "{} | {}"
      })
  void removalTakesOneCommaWithIt(String before, String after) {
    assertThat(applied(before, new Remove("r"))).isEqualTo(after);
  }

  @Test
  void absentFieldIsAddedAtTheEnd() {
    assertThat(applied("{\"a\":1 }", new Put("b", new Json.Int(2))))
        .isEqualTo("{\"a\":1,\"b\":2 }");
    assertThat(applied("{ }", new Put("b", new Json.Int(2)))).isEqualTo("{\"b\":2 }");
    assertThat(applied("{\"a\":1}", new Remove("a"), new Put("b", Json.Null.NULL)))
        .isEqualTo("{\"b\":null}");
  }

  @Test
  void nothingToChangeReturnsTheSameArray() {
    SpliceableBody body = body("{\"a\":1}");
    assertThat(body.apply(List.of(new Remove("zzz")))).isSameAs(body.bytes());
    assertThat(body.apply(List.of())).isSameAs(body.bytes());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "{\"a\":1} | {\"a\":1,\"stream_options\":{\"include_usage\":true}}",
        "{\"stream_options\":null} | {\"stream_options\":{\"include_usage\":true}}",
        "{\"stream_options\":{ }} | {\"stream_options\":{\"include_usage\":true }}",
        "{\"stream_options\":{\"include_usage\":false, \"z\":1.0}} |"
            + " {\"stream_options\":{\"include_usage\":true, \"z\":1.0}}",
      })
  void nestedPutKeepsTheNestedObjectsOtherBytes(String before, String after) {
    assertThat(
            applied(before, new PutNested("stream_options", "include_usage", new Json.Bool(true))))
        .isEqualTo(after);
  }

  @Test
  void twoEditsOfOneFieldAreABug() {
    assertThatThrownBy(() -> applied("{}", new Remove("a"), new Put("a", Json.Null.NULL)))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void editsOfRandomObjectsMeanWhatAMapWouldDo() {
    Random random = new Random(7);
    for (int round = 0; round < 3000; round++) {
      String text = RandomJson.objectText(random);
      SpliceableBody body = body(text);
      Json.Obj before = (Json.Obj) ((JsonRead.Document) READER.read(body.bytes())).value();
      Map<String, Json> expected = new LinkedHashMap<>(before.fields());
      List<BodyEdit> edits =
          List.of(
              random.nextBoolean() ? new Put("model", new Json.Str("é🙂\"")) : new Remove("model"),
              random.nextBoolean() ? new Put("a", new Json.Int(5)) : new Remove("a"),
              random.nextBoolean() ? new Put("new", Json.Null.NULL) : new Remove("stream"));
      for (BodyEdit edit : edits) {
        switch (edit) {
          case Put(String field, Json value) -> expected.put(field, value);
          case Remove(String field) -> expected.remove(field);
          case PutNested _ -> throw new AssertionError();
        }
      }
      Json after = ((JsonRead.Document) READER.read(body.apply(edits))).value();
      assertThat(after).as(text).isEqualTo(new Json.Obj(new LinkedHashMap<>(expected)));
    }
  }
}
