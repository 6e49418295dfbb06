// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.pick.Considered.Candidate;
import io.kvoy.scoring.pick.Considered.Standing;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Puts a pick into a short sentence. Only numbers and our own words go in. */
final class Why {
  private Why() {}

  static String of(Pick.Picked picked) {
    var text = new StringBuilder(80);
    Candidate chosen = null;
    Candidate next = null;
    for (Candidate candidate : picked.considered().ranked()) {
      if (candidate.worker().equals(picked.worker())) {
        chosen = candidate;
      } else if (next == null && candidate.standing() == Standing.OPEN) {
        next = candidate;
      }
    }
    int prompt = picked.flight().promptTokens();
    if (chosen != null && prompt > 0) {
      text.append(
          chosen.cachedTokens() > 0
              ? String.format(Locale.ROOT, "prefix %,d/%,d cached; ", chosen.cachedTokens(), prompt)
              : String.format(Locale.ROOT, "nothing of %,d tokens cached; ", prompt));
    }
    text.append(
        switch (picked.reason()) {
          case LOWEST_PREDICTION -> versus(picked, next);
          case TIE -> versus(picked, next) + ", a tie, least busy";
          case SESSION -> versus(picked, next) + ", a tie, same session";
          case EXPLORATION -> versus(picked, next) + ", to learn";
          case TRIAL -> "trial after failures";
          case TURN -> "next in turn";
        });
    for (Degradation degradation : picked.degradations()) {
      text.append("; ").append(degradation.label());
    }
    return text.toString();
  }

  private static String versus(Pick.Picked picked, @Nullable Candidate next) {
    String own = String.format(Locale.ROOT, "%,.0f ms", picked.prediction().totalMillis());
    return next == null
        ? own + ", the only one"
        : String.format(Locale.ROOT, "%s vs %,.0f ms next", own, next.predictedMillis());
  }
}
