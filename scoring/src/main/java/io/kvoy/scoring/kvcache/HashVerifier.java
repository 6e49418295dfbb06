// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Algorithm;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Layout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Recomputes the first block of a chain with every algorithm and seed that a worker may use. Only
 * first blocks can be recomputed from an event: later ones need the whole parent digest, of which
 * an event shows 64 bits. Chains of adapters (their path is hashed and unknown) and with media are
 * passed over.
 *
 * <p>Index writer thread; about ten microseconds a chain.
 */
final class HashVerifier {

  /** Chains tried before a worker counts as unmatched; one would do, were all of them plain. */
  static final int CHAINS = 8;

  @SuppressWarnings("ArrayRecordComponent") // never compared
  private record Candidate(
      VllmBlockHasher hasher, Algorithm algorithm, Layout layout, String seed, byte[] noneHash) {}

  private final List<Candidate> candidates = new ArrayList<>();

  HashVerifier(List<String> seeds) {
    for (Layout layout : List.of(Layout.TAGGED, Layout.UNTAGGED)) {
      for (Algorithm algorithm : Algorithm.values()) {
        VllmBlockHasher hasher = new VllmBlockHasher(algorithm, layout);
        for (String seed : seeds) {
          candidates.add(new Candidate(hasher, algorithm, layout, seed, hasher.noneHash(seed)));
        }
      }
    }
  }

  /** The state after one more event. */
  HashVerification after(HashVerification before, KvEvent.BlockStored event) {
    if (!(before instanceof HashVerification.Pending(int tried)) || !isRecomputable(event)) {
      return before;
    }
    String salt = event.extras().isEmpty() ? null : event.extras().getFirst().salt();
    Candidate match = match(event, salt);
    if (match != null) {
      return new HashVerification.HashesVerified(match.algorithm(), match.seed(), match.layout());
    }
    return tried + 1 < CHAINS
        ? new HashVerification.Pending(tried + 1)
        : new HashVerification.Unmatched(tried + 1);
  }

  private static boolean isRecomputable(KvEvent.BlockStored event) {
    if (event.hasParent()
        || event.hashes().length == 0
        || !event.isDense()
        || event.blockSize() > 8192
        || event.loraName() != null
        || event.loraId() != null) {
      return false;
    }
    KvEvent.Extras first =
        event.extras().isEmpty() ? KvEvent.Extras.NONE : event.extras().getFirst();
    return first.media().isEmpty() && !first.isOpaque();
  }

  private @Nullable Candidate match(KvEvent.BlockStored event, @Nullable String salt) {
    int[] block = Arrays.copyOf(event.tokens(), event.blockSize());
    VllmBlockHasher.Prompt prompt = VllmBlockHasher.Prompt.of(block, salt);
    for (Candidate candidate : candidates) {
      if (salt == null && candidate.layout() != Layout.TAGGED) {
        continue; // no extra keys: all layouts are the same
      }
      byte[] digest =
          candidate.hasher().digests(candidate.noneHash(), prompt, event.blockSize()).getFirst();
      if (VllmBlockHasher.eventHash(digest) == event.hashes()[0]) {
        return candidate;
      }
    }
    return null;
  }
}
