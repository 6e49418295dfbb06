// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import org.jspecify.annotations.Nullable;

/**
 * The arithmetic of our own block keys: a chain of 64-bit values, one per canonical block of
 * tokens.
 *
 * <p>{@code key(i) = finish(key(i-1), tokens of block i)}, {@code key(-1)} comes from adapter name
 * and cache salt. A multimodal item is folded into the block in which it starts; later blocks
 * depend on it through the chain.
 *
 * <h2>Groups</h2>
 *
 * Eight blocks of a chain that follow each other are a group, and their keys begin alike, so that a
 * table can lay them side by side: a look-up of a long prompt then waits for an eighth of the
 * memory that it would wait for if each key lay anywhere.
 *
 * <pre>
 * bits 63..41  group: those of its first block's hash
 * bits 40..38  place of the block in its group
 * bits 37..0   the block's own hash
 * </pre>
 *
 * Blocks at one place of one group share the first 26 bits. A group has many such blocks when
 * thousands of prompts begin with the same few blocks and then part.
 *
 * <h2>Mixing</h2>
 *
 * The folded multiply known from wyhash: {@code mum(a, b)} is the low half of the 128-bit product
 * xor its high half. Four tokens go into one multiplication, and the multiplications of a block do
 * not wait for each other; only the last one waits for the parent key. The constants have the top
 * bit of both halves set, which no token id has, so an operand is never zero and cannot blot out
 * the other one.
 *
 * <p>Odds of a false match: of n blocks anywhere two are expected to have one key n²/2^62 times at
 * most, 1 in 20,000 for 14 million; of n blocks at one place of one group n²/2^39 times, 1 in 50
 * for 100,000 prompts that part there. {@link KeyTable} keeps fewer bits and says what that means.
 * A collision costs one wrong estimate, never a wrong answer.
 */
final class KeyChain {

  private static final long C0 = 0xA0761D65D478BD64L | 0x8000_0000_8000_0000L;
  private static final long C1 = 0xE7037ED1A0B428DBL | 0x8000_0000_8000_0000L;
  private static final long C2 = 0x8EBC6AF09C88C6E3L | 0x8000_0000_8000_0000L;
  private static final long C3 = 0xD89965CCF5C2A9F3L | 0x8000_0000_8000_0000L;
  private static final long C4 = 0x9D55AD1F8E4A7B6DL | 0x8000_0000_8000_0000L;

  /** Blocks of a chain whose keys begin alike. */
  static final int GROUP = 8;

  private static final int OWN_BITS = 38;
  private static final long OWN = (1L << OWN_BITS) - 1;
  private static final long PLACE = (GROUP - 1L) << OWN_BITS;

  /** The bits that the keys of a group have in common. */
  static final long GROUP_BITS = ~(OWN | PLACE);

  private KeyChain() {}

  static long mum(long a, long b) {
    return (a * b) ^ Math.unsignedMultiplyHigh(a, b);
  }

  /** The value before the first block: in the last place, so that the first block opens a group. */
  static long root(@Nullable String lora, @Nullable String cacheSalt) {
    long state = C2;
    if (lora != null) {
      state = text(state ^ C3, lora);
    }
    if (cacheSalt != null) {
      state = text(state ^ C4, cacheSalt);
    }
    return state | PLACE;
  }

  /** The key of the block {@code ids[from, from + size)} after {@code parent}. */
  static long block(long parent, int[] ids, int from, int size) {
    long lanes = size * C4;
    int at = from;
    int end = from + size;
    for (; at + 4 <= end; at += 4) {
      // The position enters through the rotation: swapping two quads changes the sum of lanes.
      lanes =
          Long.rotateLeft(lanes, 23)
              + mum(pair(ids[at], ids[at + 1]) ^ C0, pair(ids[at + 2], ids[at + 3]) ^ C1);
    }
    for (; at < end; at++) {
      lanes = Long.rotateLeft(lanes, 23) + mum((ids[at] & 0xFFFF_FFFFL) ^ C0, C1);
    }
    long hash = mum(lanes ^ parent ^ C2, Long.rotateLeft(parent, 32) ^ lanes * C3 ^ C1);
    return inGroup(hash, parent, parent + (1L << OWN_BITS) & PLACE);
  }

  /**
   * The key of a block in which a multimodal item starts, {@code offset} tokens after the block's
   * start.
   */
  static long withMedia(long key, String identifier, int offset) {
    return inGroup(mum(key ^ C3, text(C0 ^ offset, identifier) ^ C2), key, key & PLACE);
  }

  private static long pair(int low, int high) {
    return (low & 0xFFFF_FFFFL) | ((long) high << 32);
  }

  private static long text(long seed, String text) {
    long state = seed ^ (text.length() * C1);
    for (int i = 0; i < text.length(); i++) {
      state = mum(state ^ C0, text.charAt(i) ^ C1);
    }
    return state;
  }

  /**
   * The key with this hash, at this place of the group of {@code fellow}, or of a group of its own.
   */
  private static long inGroup(long hash, long fellow, long place) {
    long key = place == 0 ? hash & ~PLACE : (fellow & GROUP_BITS) | place | (hash & OWN);
    // Zero and one have a meaning of their own in the tables.
    return key == 0 || key == EngineTable.UNPLACED ? C0 & ~PLACE : key;
  }
}
