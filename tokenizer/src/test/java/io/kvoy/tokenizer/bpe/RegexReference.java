// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import ai.djl.huggingface.tokenizers.jni.CharSpan;
import ai.djl.huggingface.tokenizers.jni.LibUtils;
import ai.djl.huggingface.tokenizers.jni.TokenizersLibrary;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Tiny tokenizers of the reference library that show what its expressions and normalizers do: every
 * word is one unknown token, so the offsets of the tokens are the words.
 */
final class RegexReference implements AutoCloseable {

  private static final TokenizersLibrary LIB = TokenizersLibrary.LIB;

  private final long handle;

  private RegexReference(String normalizer, String preTokenizer, String vocabulary) {
    LibUtils.checkStatus();
    handle =
        LIB.createTokenizerFromString(
            """
            {"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":%s,
             "pre_tokenizer":%s,"post_processor":null,"decoder":null,
             "model":{"type":"WordLevel","vocab":{"[UNK]":0%s},"unk_token":"[UNK]"}}"""
                .formatted(normalizer, preTokenizer, vocabulary));
    LIB.disableTruncation(handle);
    LIB.disablePadding(handle);
  }

  /** Splits by these expressions, one after the other. */
  static RegexReference splitting(List<String> patterns) {
    String steps =
        patterns.stream()
            .map(
                pattern ->
                    "{\"type\":\"Split\",\"pattern\":{\"Regex\":%s},\"behavior\":\"Isolated\",\"invert\":false}"
                        .formatted(quoted(pattern)))
            .collect(Collectors.joining(","));
    return new RegexReference(
        "null", "{\"type\":\"Sequence\",\"pretokenizers\":[%s]}".formatted(steps), "");
  }

  /**
   * Replaces each character by the number, from 1, of the last of these expressions that matches
   * it; 0 for none.
   */
  static RegexReference classifying(List<String> patterns) {
    String steps =
        IntStream.range(0, patterns.size())
            .mapToObj(
                i ->
                    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":%s},\"content\":\"%s\"}"
                        .formatted(quoted(patterns.get(i)), marker(i)))
            .collect(Collectors.joining(","));
    String vocabulary =
        IntStream.range(0, patterns.size())
            .mapToObj(i -> ",\"%s\":%d".formatted(marker(i), i + 1))
            .collect(Collectors.joining());
    return new RegexReference(
        "{\"type\":\"Sequence\",\"normalizers\":[%s]}".formatted(steps),
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?m:.)\"},\"behavior\":\"Isolated\",\"invert\":false}",
        vocabulary);
  }

  /** Private use, which no expression of interest matches. */
  private static char marker(int i) {
    return (char) (0xE000 + i);
  }

  private static String quoted(String text) {
    var out = new StringBuilder("\"");
    text.chars()
        .forEach(
            c ->
                out.append(
                    c == '"' || c == '\\'
                        ? "\\" + (char) c
                        : c < ' ' ? "\\u%04x".formatted(c) : String.valueOf((char) c)));
    return out.append('"').toString();
  }

  /** Ends of the words, in code points. */
  int[] wordEnds(String text) {
    long encoding = LIB.encode(handle, text, false);
    try {
      CharSpan[] spans = LIB.getTokenCharSpans(encoding);
      return IntStream.range(0, spans.length).map(i -> spans[i].getEnd()).toArray();
    } finally {
      LIB.deleteEncoding(encoding);
    }
  }

  /** Ids of the words. */
  long[] ids(String text) {
    long encoding = LIB.encode(handle, text, false);
    try {
      return LIB.getTokenIds(encoding);
    } finally {
      LIB.deleteEncoding(encoding);
    }
  }

  @Override
  public void close() {
    LIB.deleteTokenizer(handle);
  }
}
