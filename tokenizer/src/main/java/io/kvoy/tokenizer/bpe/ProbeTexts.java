// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.List;
import java.util.SplittableRandom;

/**
 * Texts to compare two encoders on: ordinary ones in many scripts, and random ones made of what
 * pre-tokenizer expressions and normalizers treat specially. The same seed gives the same texts.
 * Used by {@link DifferentialCheck} and by tests.
 */
final class ProbeTexts {

  /**
   * Written for this project: prose, code, markup, data, chat, in the scripts that users of large
   * models write.
   */
  static final List<String> CORPUS =
      List.of(
          """
          The lighthouse keeper didn't sleep; he'd counted 1,024 waves by 03:15 and they'll come again.
          "It's not the sea's fault," she said -- "we've been warned, I'm sure of that, you're right."

          Prices rose 3.75% (from $12.50 to $12.97) in Q2/2026...   See https://example.org/a?b=c&d=%20e#f
          """,
          """
          package demo;\n\nimport java.util.*;\n
          /** Adds. */
          public final class Adder<T extends Number> {\n\tprivate static final int MAX_VALUE = 0x7FFF_FFFF;\r
              double sum(List<? extends T> xs) {\r\n        double s = 0e0; for (T x : xs) { s += x.doubleValue(); }
                  return s; // camelCase, snake_case, SCREAMING_CASE, kebab-case, HTTPServer2
              }
          }
          """,
          """
          def f(x: int, *args, **kw) -> "dict[str, int]":
              '''Doc.'''
              if x == 1 and not kw: return {'a': x ** 2, "b": [i for i in range(10) if i % 2]}
              print(f"{x!r:>10}\\t{args}\\n", end='')  # it's fine; DON'T touch, he'S here, we'LL see
          """,
          """
          <!DOCTYPE html><html lang="en"><body class='x y'><p>&nbsp;a&lt;b</p><br/><!-- c --></body></html>
          {"id": 17, "ok": true, "pi": 3.14159, "none": null, "list": [1, 2, [3]], "esc": "\\u00e9\\n\\"q\\""}
          | name | value |\n|:-----|------:|\n| a    | 1     |\n\n# Title\n\n* one\n  * two\n\n```sh\n$ ls -la | grep x\n```
          SELECT a.id, COUNT(*) FROM t AS a WHERE a.x >= 10 AND a.y LIKE '%z%' GROUP BY 1 ORDER BY 2 DESC;
          """,
          "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ= 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
          "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Le cœur déçu mais l'âme plutôt naïve.",
          "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia. Pchnąć w tę łódź jeża lub ośm skrzyń fig.",
          "Съешь же ещё этих мягких французских булок, да выпей чаю. Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία.",
          "今天天气很好，我们去公园散步吧。第１２３号文件：人工智能（AI）技术在2026年的发展。",
          "いろはにほへと ちりぬるを・カタカナもアルよ、ｶﾅ、漢字とー、１２３。 吾輩は猫である。名前はまだ無い。",
          "다람쥐 헌 쳇바퀴에 타고파. 키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
          "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت ١٢٣٤٥، والله أعلم. דג סקרן שט בים מאוכזב ולפתע מצא חברה",
          "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश १२३। কি খবর? தமிழ் மொழி, తెలుగు భాష",
          "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓ ភាសាខ្មែរ မြန်မာဘာသာ አማርኛ ქართული Հայերեն ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ",
          "👩🏽‍💻 wrote 👨‍👩‍👧‍👦 ❤️‍🔥 🏳️‍🌈 🇩🇪🇯🇵 1️⃣2️⃣ ✅☑️ 🙂🙃 ¯\\_(ツ)_/¯ (╯°□°）╯︵ ┻━┻ ∀x∈ℝ: ⌈x⌉ = −⌊−x⌋ ≤ ½ ² ³ Ⅻ ①",
          "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘ é e\u0301 ﬁ ﬀ Å \u212B ꙮ ǅ ǆ ʰ ª º",
          "tabs\t\tand   spaces    \n\n\n  \n \t\n\r\n\r\n\u00A0nbsp\u2003em\u3000wide\u2028line\u2029par\u0085nel\u200Bzero\uFEFFbom\u0000nul\u001Besc");

  private static final String[] FRAGMENTS = {
    "'s",
    "'S",
    "'t",
    "'re",
    "'RE",
    "'ve",
    "'m",
    "'ll",
    "'lL",
    "'d",
    "'\u017F",
    "'",
    "''",
    "\"",
    "a",
    "B",
    "Zz",
    "xyz",
    "Hello",
    "WORLD",
    "camelCase",
    "iPhone",
    "McD",
    "\u00DF",
    "\u01C5",
    "\u02B0",
    "\u00AA",
    "\u4E2D",
    "\u9FA5",
    "\u9FA6",
    "\u3042",
    "\u30AB",
    "\u30FB",
    "\u30FC",
    "\u30A0",
    "\u3099",
    "\u3040",
    "\uAC00",
    "\u1100\u1161",
    "\u11A8",
    "\uFF76",
    "0",
    "7",
    "12",
    "345",
    "6789",
    "\u0663",
    "\u0967",
    "\u00BD",
    "\u2167",
    "\u00B2",
    "\uFF11",
    " ",
    "  ",
    "    ",
    "\n",
    "\n\n",
    "\r\n",
    "\r",
    "\t",
    " \n",
    "\n ",
    "\t ",
    "\u00A0",
    "\u3000",
    "\u2028",
    "\u0085",
    "\u000B",
    "\u1680",
    "!",
    "?!",
    "...",
    "//",
    "/",
    "-",
    "_",
    "()",
    "{}",
    "[];",
    "<",
    ">",
    "<|",
    "|>",
    "</",
    "=",
    "==",
    "$",
    "\u20AC",
    "\u00A9",
    "\u0300",
    "\u0301",
    "\u0345",
    "\u0334",
    "\u0327",
    "\u05B0",
    "\u064B",
    "\u093C",
    "\u0E38",
    "\u20DD",
    "\u0488",
    "\u200D",
    "\u200B",
    "\uFEFF",
    "\u00AD",
    "\uFE0F",
    "\u0000",
    "\u0007",
    "\u007F",
    "\uE000",
    "\uFFFD",
    "\uFFFF",
    "\uD83D\uDE42",
    "\uD83C\uDFFD",
    "\uD83C\uDDE9",
    "\uD835\uDC00",
    "\uD835\uDFCE",
    "\uD840\uDC00",
    "\uD801\uDC00",
    "\uDB40\uDC67",
    "\uDBFF\uDFFF",
    "e\u0301",
    "\u00E9",
    "\u1E9B\u0323",
    "\u212B",
    "\u0958",
    "\uFB01",
    "\uFB06",
    "\u1E97",
    "\u0130",
    "\u0131",
    "\u212A",
    "\u0897",
    "\u08CA",
    "\uD804\uDFC2",
    "\uD801\uDDD2\u0307"
  };

  private final SplittableRandom random;
  private final List<String> addedTokens;

  /**
   * @param addedTokens contents to strew in; may be empty
   */
  ProbeTexts(long seed, List<String> addedTokens) {
    this.random = new SplittableRandom(seed);
    this.addedTokens = List.copyOf(addedTokens);
  }

  /** The next random text, 1 to some hundred characters, without lone surrogates. */
  String next() {
    var text = new StringBuilder();
    int parts = 1 + random.nextInt(40);
    int style = random.nextInt(6);
    for (int i = 0; i < parts; i++) {
      appendPart(text, style);
    }
    return text.toString();
  }

  private void appendPart(StringBuilder text, int style) {
    switch (style) {
      case 0 -> text.append(fragment());
      case 1 -> text.append((char) (' ' + random.nextInt(95)));
      case 2 -> appendSlice(text);
      case 3 -> appendCodePoint(text);
      case 4 -> appendMixed(text);
      default -> text.append(fragment().repeat(1 + random.nextInt(4)));
    }
  }

  private void appendMixed(StringBuilder text) {
    switch (random.nextInt(8)) {
      case 0, 1 -> appendSlice(text);
      case 2 -> appendAddedToken(text);
      case 3 -> appendCodePoint(text);
      case 4 -> text.append((char) ('a' + random.nextInt(26)));
      default -> text.append(fragment());
    }
  }

  private String fragment() {
    return FRAGMENTS[random.nextInt(FRAGMENTS.length)];
  }

  /** An added token, or all but its end, or all but its start. */
  private void appendAddedToken(StringBuilder text) {
    if (addedTokens.isEmpty()) {
      return;
    }
    String token = addedTokens.get(random.nextInt(addedTokens.size()));
    int start = random.nextInt(8) == 0 ? Math.min(1, token.length() - 1) : 0;
    int end = random.nextInt(8) == 0 ? token.length() - 1 : token.length();
    appendWellFormed(text, token, Math.max(0, start), Math.max(start, end));
  }

  private void appendSlice(StringBuilder text) {
    String source = CORPUS.get(random.nextInt(CORPUS.size()));
    int start = random.nextInt(source.length());
    appendWellFormed(
        text, source, start, Math.min(source.length(), start + 1 + random.nextInt(24)));
  }

  private static void appendWellFormed(StringBuilder text, String source, int start, int end) {
    int from = start < end && Character.isLowSurrogate(source.charAt(start)) ? start + 1 : start;
    int to = from < end && Character.isHighSurrogate(source.charAt(end - 1)) ? end - 1 : end;
    text.append(source, from, Math.max(from, to));
  }

  private void appendCodePoint(StringBuilder text) {
    int codePoint =
        switch (random.nextInt(4)) {
          case 0 -> random.nextInt(0x300, 0x3000);
          case 1 -> random.nextInt(0xA000, 0xAC00);
          case 2 -> random.nextInt(0x10000, 0x1F000);
          default -> random.nextInt(Character.MAX_CODE_POINT + 1);
        };
    if (codePoint < Character.MIN_SURROGATE || codePoint > Character.MAX_SURROGATE) {
      text.appendCodePoint(codePoint);
    }
  }
}
