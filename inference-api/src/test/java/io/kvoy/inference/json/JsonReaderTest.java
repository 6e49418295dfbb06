// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static java.nio.charset.StandardCharsets.UTF_16LE;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonRead.Document;
import io.kvoy.inference.json.JsonRead.Failure;
import io.kvoy.inference.json.JsonRead.Reason;
import java.math.BigInteger;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class JsonReaderTest {
  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  private static Json value(String text) {
    JsonRead read = READER.read(text.getBytes(UTF_8));
    assertThat(read).as(text).isInstanceOf(Document.class);
    return ((Document) read).value();
  }

  private static Failure failure(byte[] body) {
    JsonRead read = READER.read(body);
    assertThat(read).isInstanceOf(Failure.class);
    return (Failure) read;
  }

  private static Failure failure(String text) {
    return failure(text.getBytes(UTF_8));
  }

  @Test
  void integersOfAnySizeStayIntegers() {
    assertThat(value("-0")).isEqualTo(new Json.Int(0));
    assertThat(value("9223372036854775807")).isEqualTo(new Json.Int(Long.MAX_VALUE));
    assertThat(value("-9223372036854775808")).isEqualTo(new Json.Int(Long.MIN_VALUE));
    assertThat(value("9223372036854775808")).isEqualTo(new Json.BigInt(BigInteger.TWO.pow(63)));
    assertThat(value("1".repeat(4300)))
        .isEqualTo(new Json.BigInt(new BigInteger("1".repeat(4300))));
  }

  @Test
  void integersBeyondPythonsDigitLimitAreRefused() {
    assertThat(failure("[" + "1".repeat(4302) + "]").reason()).isEqualTo(Reason.NUMBER_TOO_LONG);
    assertThat(failure("[" + "1".repeat(100_000) + "]").reason()).isEqualTo(Reason.NUMBER_TOO_LONG);
  }

  @Test
  void floatsAndPythonsThreeNamesAreReal() {
    assertThat(value("1.0")).isEqualTo(new Json.Real(1.0));
    assertThat(value("-0.0")).isEqualTo(new Json.Real(-0.0));
    assertThat(value("1e5")).isEqualTo(new Json.Real(1e5));
    assertThat(value("1e999")).isEqualTo(new Json.Real(Double.POSITIVE_INFINITY));
    assertThat(value("[NaN, Infinity, -Infinity]"))
        .isEqualTo(
            new Json.Arr(
                List.of(
                    new Json.Real(Double.NaN),
                    new Json.Real(Double.POSITIVE_INFINITY),
                    new Json.Real(Double.NEGATIVE_INFINITY))));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "INF",
        "-INF",
        "+INF",
        "-NaN",
        "+Infinity",
        "nan",
        "infinity",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "0x10",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "{\"a\" 1}",
        "tru",
        "nullx",
        "[1 2]",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "{\"a\":1",
        "[",
        "\"abc",
        "\u00a01",
        "// c\n1",
        "1 1",
        "{}]",
        "{} {}",
        "]",
        "}",
        ":",
        ","
      })
  void whatPythonRefusesIsRefused(String text) {
    assertThat(failure(text).reason()).isEqualTo(Reason.SYNTAX);
  }

  @Test
  void emptyAndBlankBodiesAreEmpty() {
    assertThat(failure("")).isEqualTo(new Failure(Reason.EMPTY, 0));
    assertThat(failure(" \n\t")).isEqualTo(new Failure(Reason.EMPTY, 3));
  }

  @Test
  void lastOfEqualKeysWinsAndKeepsTheFirstPlace() {
    Json.Obj object = (Json.Obj) value("{\"a\":1,\"b\":2,\"\\u0061\":3}");
    assertThat(object.fields().keySet()).containsExactly("a", "b");
    assertThat(object.get("a")).isEqualTo(new Json.Int(3));
  }

  @Test
  void byteOrderMarkIsSkippedAndOffsetsCountIt() {
    byte[] body = "\ufeff {\"a\": 12}".getBytes(UTF_8);
    Document document = (Document) READER.read(body);
    JsonRead.Member a = document.members().getFirst();
    assertThat(new String(body, a.keyStart(), a.keyEnd() - a.keyStart(), UTF_8)).isEqualTo("\"a\"");
    assertThat(new String(body, a.valueStart(), a.valueEnd() - a.valueStart(), UTF_8))
        .isEqualTo("12");
  }

  @Test
  void wideUnicodeIsNamedNotParsed() {
    assertThat(failure("{}".getBytes(UTF_16LE)).reason()).isEqualTo(Reason.NOT_UTF8);
    assertThat(failure("\ufeff{}".getBytes(UTF_16LE)).reason()).isEqualTo(Reason.NOT_UTF8);
  }

  @ParameterizedTest
  @CsvSource({
    "22 FF 22, 1",
    "22 C0 80 22, 1",
    "22 C3 22, 1",
    "22 E0 80 80 22, 1",
    "22 F5 80 80 80 22, 1",
    "22 F0 80 80 80 22, 1",
    "22 F4 90 80 80 22, 1",
    "22 61 E2 82, 2",
    "80, 0"
  })
  void bytesThatAreNoUtf8AreRefusedAtTheirOffset(String hex, int offset) {
    byte[] body = java.util.HexFormat.ofDelimiter(" ").parseHex(hex);
    assertThat(failure(body)).isEqualTo(new Failure(Reason.ENCODING, offset));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "\"\\ud83d\" | true",
        "\"\\ude00\" | true",
        "\"\\ude00\\ud83d\" | true",
        "\"\\ud83d x\" | true",
        "{\"\\uD83D\":1} | true",
        "[{\"a\":[\"x\\udfffy\"]}] | true",
        "\"\\ud83d\\ude00\" | false",
        "\"\\\\ud83d\" | false",
        "\"plain \\u00e9\" | false"
      })
  void loneSurrogatesAreSeenAnywhere(String text, boolean expected) {
    assertThat(((Document) READER.read(text.getBytes(UTF_8))).hasLoneSurrogate())
        .isEqualTo(expected);
  }

  @Test
  void surrogateAsThreeBytesIsReadAsPythonDoes() {
    byte[] body = java.util.HexFormat.of().parseHex("22eda0bd22");
    Document document = (Document) READER.read(body);
    assertThat(document.value()).isEqualTo(new Json.Str("\ud83d"));
    assertThat(document.hasLoneSurrogate()).isTrue();
  }

  /** Strings are read eight bytes at a time: everything at each place of the eight. */
  @Test
  void whatEndsOrInterruptsTextIsSeenAtEveryOffset() {
    for (int before = 0; before < 20; before++) {
      for (int after = 0; after < 20; after++) {
        String left = "abcdefghijklmnopqrstuvwxyz".substring(0, before);
        String right = "\u007f ABCDEFGHIJKLMNOPQRSTUVWXYZ".substring(0, after);
        for (String special :
            List.of("\"", "\\", "\n", "\u00e9", "\u20ac", "\ud83d\ude00", "\u0001")) {
          String text = left + special + right;
          assertThat(value(PythonJson.dumps(new Json.Str(text)))).isEqualTo(new Json.Str(text));
          String twice = text + "\n" + text;
          assertThat(value(PythonJson.dumps(new Json.Str(twice)))).isEqualTo(new Json.Str(twice));
        }
        for (String plain : List.of("\u00e9", "\u20ac", "\ud83d\ude00")) {
          assertThat(value('"' + left + plain + right + '"'))
              .isEqualTo(new Json.Str(left + plain + right));
          assertThat(value('"' + left + "\\t" + plain + right + '"'))
              .isEqualTo(new Json.Str(left + '\t' + plain + right));
        }
        for (String start : List.of("", "\\n")) {
          int offset = 1 + start.length() + before;
          assertThat(failure('"' + start + left + '\u001f' + right + '"'))
              .isEqualTo(new Failure(Reason.SYNTAX, offset));
          assertThat(failure('"' + start + left)).isEqualTo(new Failure(Reason.SYNTAX, offset));
        }
      }
    }
  }

  @Test
  void depthIsHeldAtTheLimit() {
    JsonReader shallow = new JsonReader(new JsonLimits(1000, 5, 1000, 1000, 1000));
    assertThat(shallow.read("[[[[[]]]]]".getBytes(UTF_8))).isInstanceOf(Document.class);
    assertThat(shallow.read("[[[[[[]]]]]]".getBytes(UTF_8)))
        .isEqualTo(new Failure(Reason.TOO_DEEP, 5));
    assertThat(shallow.read("[[[[[{}]]]]]".getBytes(UTF_8)))
        .isEqualTo(new Failure(Reason.TOO_DEEP, 5));
  }

  @Test
  void everyOtherLimitHasItsReason() {
    JsonReader tight = new JsonReader(new JsonLimits(40, 5, 8, 10, 6));
    assertThat(tight.read("[1,2,3,4,5]".getBytes(UTF_8))).isInstanceOf(Document.class);
    assertThat(((Failure) tight.read("[1,2,3,4,5,6]".getBytes(UTF_8))).reason())
        .isEqualTo(Reason.TOO_MANY_ELEMENTS);
    assertThat(((Failure) tight.read("\"123456789\"".getBytes(UTF_8))).reason())
        .isEqualTo(Reason.STRING_TOO_LONG);
    assertThat(((Failure) tight.read("{\"123456789\":1}".getBytes(UTF_8))).reason())
        .isEqualTo(Reason.STRING_TOO_LONG);
    assertThat(((Failure) tight.read("[1.0000000001]".getBytes(UTF_8))).reason())
        .isEqualTo(Reason.NUMBER_TOO_LONG);
    assertThat(tight.read(" ".repeat(41).getBytes(UTF_8)))
        .isEqualTo(new Failure(Reason.TOO_LARGE, 40));
  }

  @Test
  void memberRangesReadBackToTheirValues() {
    Random random = new Random(20261130);
    for (int round = 0; round < 2000; round++) {
      byte[] body = RandomJson.objectText(random).getBytes(UTF_8);
      Document document = (Document) READER.read(body);
      Json.Obj root = (Json.Obj) document.value();
      assertThat(document.members()).hasSizeGreaterThanOrEqualTo(root.fields().size());
      for (JsonRead.Member member : document.members()) {
        String key =
            new String(body, member.keyStart(), member.keyEnd() - member.keyStart(), UTF_8);
        String text =
            new String(body, member.valueStart(), member.valueEnd() - member.valueStart(), UTF_8);
        assertThat(text).isEqualTo(text.strip());
        assertThat(value(key)).isEqualTo(new Json.Str(member.key()));
        value(text);
      }
      document.members().reversed().stream()
          .collect(
              java.util.stream.Collectors.toMap(JsonRead.Member::key, m -> m, (last, _) -> last))
          .forEach(
              (key, member) ->
                  assertThat(
                          value(
                              new String(
                                  body,
                                  member.valueStart(),
                                  member.valueEnd() - member.valueStart(),
                                  UTF_8)))
                      .isEqualTo(root.get(key)));
    }
  }

  @Test
  void everyCutOfAValidObjectIsAFailureAtItsEnd() {
    byte[] body = "{\"a\":[1,2.5,\"x\\n\\u00e9\",{\"b\":null}],\"c\":true}".getBytes(UTF_8);
    for (int cut = 1; cut < body.length; cut++) {
      Failure failure = failure(java.util.Arrays.copyOf(body, cut));
      assertThat(failure.reason()).as("cut at %s", cut).isEqualTo(Reason.SYNTAX);
      assertThat(failure.byteOffset()).isBetween(0L, (long) cut);
    }
  }
}
