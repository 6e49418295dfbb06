// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.tokenizer.files.AddedToken;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class AddedTokenMatcherTest {

  @Test
  void leftmostThenLongestThenNothingTwice() {
    record Row(List<String> tokens, String text, List<String> found) {}
    for (Row row :
        List.of(
            new Row(List.of(), "<a>", List.of()),
            new Row(List.of("<a>"), "", List.of()),
            new Row(List.of("<a>"), "<a>", List.of("0<a>")),
            new Row(List.of("<a>"), "<<a><a", List.of("1<a>")),
            new Row(List.of("<a>", "<a>b"), "<a>bb<a>", List.of("0<a>b", "5<a>")),
            new Row(List.of("ab", "bcd"), "abcd", List.of("0ab")),
            new Row(List.of("abcd", "bc"), "abcbcd", List.of("1bc", "3bc")),
            new Row(List.of("aa"), "aaaaa", List.of("0aa", "2aa")),
            new Row(
                List.of("<a", "\u4E2D"), "x\u4E2D<a\u4E2D", List.of("1\u4E2D", "2<a", "4\u4E2D")),
            new Row(List.of("", "x"), "yx", List.of("1x")))) {
      assertThat(all(row.tokens, row.text)).as(row.toString()).isEqualTo(row.found);
    }
  }

  @Test
  void matchesEndWithinTheRange() {
    var matcher = new AddedTokenMatcher(tokens(List.of("<a>", "<")));

    long match = matcher.find("x<a>", 0, 3);

    assertThat(AddedTokenMatcher.start(match)).isEqualTo(1);
    assertThat(matcher.end(match)).isEqualTo(2);
    assertThat(matcher.id(match)).isEqualTo(101);
    assertThat(matcher.find("x<a>", 0, 1)).isEqualTo(AddedTokenMatcher.NONE);
  }

  @Test
  void tokensInsideOthersAreMarkedUnlessTheyEndWithThem() {
    var tokens = tokens(List.of("<a>", "<a>b", "b", "xx", "x"));

    assertThat(new AddedTokenMatcher(tokens).insideOthers(tokens).stream()).containsExactly(0, 4);
  }

  private static List<String> all(List<String> contents, String text) {
    var matcher = new AddedTokenMatcher(tokens(contents));
    var found = new ArrayList<String>();
    int at = 0;
    while (true) {
      long match = matcher.find(text, at, text.length());
      if (match == AddedTokenMatcher.NONE) {
        return found;
      }
      int start = AddedTokenMatcher.start(match);
      at = matcher.end(match);
      found.add(start + text.substring(start, at));
      assertThat(contents.get(matcher.id(match) - 100)).isEqualTo(text.substring(start, at));
    }
  }

  private static List<AddedToken> tokens(List<String> contents) {
    var tokens = new ArrayList<AddedToken>();
    for (String content : contents) {
      tokens.add(new AddedToken(100 + tokens.size(), content, false, false, false, false, true));
    }
    return tokens;
  }
}
