// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.files.AddedToken;
import io.kvoy.tokenizer.files.TokenizerFolder;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Places where a text may be cut so that the ids of its parts, one behind the other, are the ids of
 * the whole, whatever text follows. Immutable and thread-safe.
 *
 * <p>The place behind an added token is such a place when
 *
 * <ul>
 *   <li>the token is plain: no flag makes it touch its neighbours, and it is cut out of the raw
 *       text before anything is normalized; so what is before and behind it are different pieces,
 *       and normalizer, pre-tokenizer and model see one piece at a time;
 *   <li>no other token has it inside and ends behind it; so no later text can turn it into a part
 *       of a longer match;
 *   <li>no token of the file is single_word, since such a token asks what is before it;
 *   <li>the pre-tokenizer does not ask whether a piece is the first one (Metaspace with
 *       prepend_scheme "first" does).
 * </ul>
 */
public final class CutPoints implements Cuts {

  /** These look at nothing but the piece (tokenizers 0.21 pre_tokenizers). */
  private static final Set<String> PIECEWISE =
      Set.of("Split", "ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit");

  private final AddedTokenMatcher matcher;
  private final BitSet cutting;

  private CutPoints(AddedTokenMatcher matcher, BitSet cutting) {
    this.matcher = matcher;
    this.cutting = cutting;
  }

  /** The cut points of that file, empty when it has none. */
  public static Optional<CutPoints> of(TokenizerFolder folder) {
    List<AddedToken> tokens =
        folder.addedTokens().stream().filter(token -> !token.normalized()).toList();
    if (!isPiecewise(folder.pipeline().preTokenizer())
        || folder.addedTokens().stream().anyMatch(AddedToken::singleWord)) {
      return Optional.empty();
    }
    var matcher = new AddedTokenMatcher(tokens);
    BitSet insideOthers = matcher.insideOthers(tokens);
    var cutting = new BitSet();
    for (int i = 0; i < tokens.size(); i++) {
      cutting.set(i, tokens.get(i).isPlain() && !insideOthers.get(i));
    }
    return cutting.isEmpty() ? Optional.empty() : Optional.of(new CutPoints(matcher, cutting));
  }

  private static boolean isPiecewise(Json preTokenizer) {
    if (preTokenizer instanceof Json.Null) {
      return true;
    }
    if (!(preTokenizer instanceof Json.Obj object)
        || !(object.get("type") instanceof Json.Str(String type))) {
      return false;
    }
    return switch (type) {
      case "Sequence" ->
          object.get("pretokenizers") instanceof Json.Arr(List<Json> steps)
              && steps.stream().allMatch(CutPoints::isPiecewise);
      case "Metaspace" ->
          object.get("prepend_scheme") instanceof Json.Str(String scheme)
              && (scheme.equals("always") || scheme.equals("never"));
      default -> PIECEWISE.contains(type);
    };
  }

  @Override
  public int next(String text, int from, int atLeast) {
    int at = from;
    while (true) {
      long match = matcher.find(text, at, text.length());
      if (match == AddedTokenMatcher.NONE) {
        return -1;
      }
      at = matcher.end(match);
      if (at >= atLeast && cutting.get(AddedTokenMatcher.token(match))) {
        return at;
      }
    }
  }

  /** The last cut point up to {@code to}; 0 when there is none. */
  public int lastBy(String text, int to) {
    int last = 0;
    for (int cut = next(text, 0, 0); cut >= 0 && cut <= to; cut = next(text, cut, cut)) {
      last = cut;
    }
    return last;
  }
}
