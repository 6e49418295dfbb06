// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import io.kvoy.tokenizer.encode.AddedTokenMatcher;
import io.kvoy.tokenizer.encode.LoneSurrogates;
import io.kvoy.tokenizer.encode.PostProcessor;
import io.kvoy.tokenizer.encode.TextEncoder;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Byte-level BPE in plain Java for the files that {@link BpeFileReader} knows.
 *
 * <p>The order is that of {@code tokenizers} 0.21 (added_vocabulary.rs extract_and_normalize, then
 * pre_tokenizer, then model): added tokens that are not normalized are cut out of the raw text;
 * each piece between them is normalized on its own; normalized added tokens are cut out of that;
 * what is left is cut into words; each word becomes ids.
 *
 * <p>Thread-safe, no locks, no state between calls but the word cache. Work arrays live for one
 * call.
 */
public final class BpeTextEncoder implements TextEncoder {

  private final AddedTokenMatcher rawTokens;
  private final AddedTokenMatcher normalizedTokens;
  private final boolean normalizesToNfc;
  private final WordScanner scanner;
  private final BpeModel model;
  private final PostProcessor postProcessor;

  BpeTextEncoder(
      AddedTokenMatcher rawTokens,
      AddedTokenMatcher normalizedTokens,
      boolean normalizesToNfc,
      WordScanner scanner,
      BpeModel model,
      PostProcessor postProcessor) {
    this.rawTokens = rawTokens;
    this.normalizedTokens = normalizedTokens;
    this.normalizesToNfc = normalizesToNfc;
    this.scanner = scanner;
    this.model = model;
    this.postProcessor = postProcessor;
  }

  /** The same for texts in which nothing is an added token; shares the vocabulary. */
  public TextEncoder withoutAddedTokens() {
    var none = new AddedTokenMatcher(List.of());
    return new BpeTextEncoder(none, none, normalizesToNfc, scanner, model, PostProcessor.NONE);
  }

  @Override
  public long memoryBytes() {
    return model.memoryBytes();
  }

  @Override
  public int @Nullable [] encode(String text, boolean addSpecialTokens) {
    // Three characters a token is few enough for nearly every text, so the list seldom grows.
    var out = new IdList(text.length() / 3 + 16);
    if (addSpecialTokens) {
      postProcessor.before().forEach(out::add);
    }
    if (!encodeRaw(text, out)) {
      return null;
    }
    if (addSpecialTokens) {
      postProcessor.after().forEach(out::add);
    }
    return out.toArray();
  }

  /**
   * @return false when the text has a lone surrogate
   */
  private boolean encodeRaw(String text, IdList out) {
    Merger merger = model.newMerger();
    int from = 0;
    while (true) {
      long match = rawTokens.find(text, from, text.length());
      int to = match == AddedTokenMatcher.NONE ? text.length() : AddedTokenMatcher.start(match);
      if (from < to && !encodePiece(text, from, to, merger, out)) {
        return false;
      }
      if (match == AddedTokenMatcher.NONE) {
        return true;
      }
      out.add(rawTokens.id(match));
      from = rawTokens.end(match);
    }
  }

  private boolean encodePiece(String text, int from, int to, Merger merger, IdList out) {
    int uncertain = Nfc.firstUncertain(text, from, to);
    if (uncertain == to) {
      encodeNormalized(text, from, to, merger, out);
      return true;
    }
    if (LoneSurrogates.indexOf(text, uncertain, to) >= 0) {
      return false;
    }
    if (normalizesToNfc) {
      String piece = Nfc.normalize(text.substring(from, to));
      encodeNormalized(piece, 0, piece.length(), merger, out);
    } else {
      encodeNormalized(text, from, to, merger, out);
    }
    return true;
  }

  private void encodeNormalized(String text, int from, int to, Merger merger, IdList out) {
    int at = from;
    while (true) {
      long match = normalizedTokens.find(text, at, to);
      int end = match == AddedTokenMatcher.NONE ? to : AddedTokenMatcher.start(match);
      if (at < end) {
        encodeWords(text.substring(at, end), merger, out);
      }
      if (match == AddedTokenMatcher.NONE) {
        return;
      }
      out.add(normalizedTokens.id(match));
      at = normalizedTokens.end(match);
    }
  }

  private void encodeWords(String text, Merger merger, IdList out) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    int start = 0;
    while (start < utf8.length) {
      int end = scanner.wordEnd(utf8, start, utf8.length);
      model.encodeWord(utf8, start, end, merger, out);
      start = end;
    }
  }
}
