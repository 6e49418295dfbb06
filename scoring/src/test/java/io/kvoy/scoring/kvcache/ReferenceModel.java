// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * What one worker's cache holds according to its events, in plain maps: the truth to which the
 * index is compared. Knows blocks by their whole content, not by any key.
 */
final class ReferenceModel {

  /** Live copies by group, then by engine hash. */
  private final Map<Integer, Map<Long, Integer>> copies = new TreeMap<>();

  /** What each hash stood for when it was stored with tokens. */
  private final Map<Long, String> contents = new HashMap<>();

  private final Map<String, int[]> prefixes = new LinkedHashMap<>();
  private final Map<Long, int[]> tokensByHash = new HashMap<>();
  private final Map<Long, String> identityByHash = new HashMap<>();
  private final Map<Integer, Integer> windowBlocks = new TreeMap<>();
  private List<Long> reported = List.of();
  private int mainGroup = -2;
  private int blockSize = 1;

  void apply(KvBatch batch) {
    for (KvEvent event : batch.events()) {
      switch (event) {
        case KvEvent.BlockStored stored -> stored(stored);
        case KvEvent.BlockRemoved removed -> {
          Map<Long, Integer> live = copies.getOrDefault(removed.group(), new HashMap<>());
          for (long hash : removed.hashes()) {
            live.computeIfPresent(hash, (_, n) -> n == 1 ? null : n - 1);
          }
        }
        case KvEvent.AllBlocksCleared _ -> copies.clear();
        case KvEvent.Unknown _ -> {}
      }
    }
  }

  private void stored(KvEvent.BlockStored event) {
    boolean isMain = event.kind() == GroupKind.FULL || event.group() == KvEvent.NO_GROUP;
    if (isMain) {
      mainGroup = event.group();
      blockSize = event.blockSize();
    } else {
      windowBlocks.put(
          event.group(), (event.windowTokens() - 1 + event.blockSize() - 1) / event.blockSize());
    }
    Map<Long, Integer> live = copies.computeIfAbsent(event.group(), _ -> new TreeMap<>());
    if (isMain && event.hasParent() && reported.indexOf(event.parent()) > 0) {
      // The prefix that a request hit, announced on its client's wish: these are no copies.
      reported.forEach(hash -> live.computeIfPresent(hash, (_, n) -> n - 1));
    }
    if (isMain) {
      boolean isReport =
          !event.hasParent()
              && windowBlocks.isEmpty()
              && event.hashes().length > 1
              && Arrays.stream(event.hashes()).allMatch(live::containsKey);
      reported = isReport ? Arrays.stream(event.hashes()).boxed().toList() : List.of();
    }
    int[] prefix = event.hasParent() ? tokensByHash.get(event.parent()) : new int[0];
    String identity =
        event.hasParent()
            ? identityByHash.get(event.parent())
            : event.loraName()
                + "|"
                + (event.extras().isEmpty() ? null : event.extras().getFirst().salt());
    for (int i = 0; i < event.hashes().length; i++) {
      long hash = event.hashes()[i];
      copies.computeIfAbsent(event.group(), _ -> new TreeMap<>()).merge(hash, 1, Integer::sum);
      if (isMain && prefix != null) {
        prefix =
            Fleet.concat(
                prefix,
                Arrays.copyOfRange(
                    event.tokens(), i * event.blockSize(), (i + 1) * event.blockSize()));
        String content = identity + Arrays.toString(prefix);
        contents.put(hash, content);
        tokensByHash.put(hash, prefix);
        identityByHash.put(hash, String.valueOf(identity));
        prefixes.put(content, prefix);
      }
    }
  }

  int blocks() {
    return copies.getOrDefault(mainGroup, Map.of()).size();
  }

  int references() {
    return copies.getOrDefault(mainGroup, Map.of()).values().stream().mapToInt(n -> n).sum();
  }

  /** All prefixes that were ever stored, with their identity. */
  Map<String, int[]> everStored() {
    return prefixes;
  }

  static CacheIdentity identityOf(String content) {
    String[] parts = content.substring(0, content.indexOf('[')).split("\\|", -1);
    return CacheIdentity.of(
        parts[0].equals("null") ? null : parts[0], parts[1].equals("null") ? null : parts[1]);
  }

  int cachedTokens(int[] ids, @Nullable String lora, @Nullable String salt) {
    int blocks = 0;
    while ((blocks + 1) * blockSize < ids.length
        && isLive(mainGroup, ids, blocks + 1, lora, salt)) {
      blocks++;
    }
    for (Map.Entry<Integer, Integer> window : windowBlocks.entrySet()) {
      int end = blocks;
      int run = 0;
      for (int at = blocks; at > 0 && run < window.getValue(); at--) {
        if (isLive(window.getKey(), ids, at, lora, salt)) {
          run++;
        } else {
          run = 0;
          end = at - 1;
        }
      }
      blocks = end;
    }
    return blocks * blockSize;
  }

  private boolean isLive(
      int group, int[] ids, int blocks, @Nullable String lora, @Nullable String salt) {
    String content = lora + "|" + salt + Arrays.toString(Arrays.copyOf(ids, blocks * blockSize));
    return copies.getOrDefault(group, Map.of()).keySet().stream()
        .anyMatch(hash -> content.equals(contents.get(hash)));
  }
}
