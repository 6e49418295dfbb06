// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * The latest decisions, in a ring of fixed size. Any thread writes and reads without a lock; an old
 * decision is simply gone.
 */
public final class DecisionLog {
  /** A decision and, once it has one, its outcome. */
  public static final class Entry {
    private final long sequence;
    private final DecisionRecord decision;

    /** Written once by the thread that ends the request, read by debug pages. */
    private volatile @Nullable DecisionOutcome outcome;

    private Entry(long sequence, DecisionRecord decision) {
      this.sequence = sequence;
      this.decision = decision;
    }

    public DecisionRecord decision() {
      return decision;
    }

    /** Null while the request runs. */
    public @Nullable DecisionOutcome outcome() {
      return outcome;
    }

    /** Completes the entry. */
    public void outcome(DecisionOutcome seen) {
      outcome = seen;
    }
  }

  private final AtomicReferenceArray<@Nullable Entry> ring;
  private final AtomicLong next = new AtomicLong();

  /** Tells decisions of one process life from those of another. */
  private final String lifePrefix;

  /**
   * @param capacity decisions kept; 0 keeps none
   * @param lifeSeed any number that differs between process lives
   */
  public DecisionLog(int capacity, long lifeSeed) {
    ring = new AtomicReferenceArray<>(capacity);
    lifePrefix =
        String.format(
            Locale.ROOT, "%04x", (lifeSeed ^ (lifeSeed >>> 16) ^ (lifeSeed >>> 32)) & 0xFFFF);
  }

  /** A place in the ring, whose number is part of the decision's id. */
  public long nextSequence() {
    return next.getAndIncrement();
  }

  /** The id that belongs to a sequence number. */
  public String id(long sequence) {
    return lifePrefix + "-" + Long.toString(sequence, 36);
  }

  /** Keeps a decision under its sequence number. */
  public Entry add(long sequence, DecisionRecord decision) {
    Entry entry = new Entry(sequence, decision);
    if (ring.length() > 0) {
      ring.set((int) (sequence % ring.length()), entry);
    }
    return entry;
  }

  /** The decision with an id, null when it is gone or never was. */
  public @Nullable Entry find(String id) {
    if (ring.length() == 0 || !id.startsWith(lifePrefix + "-") || id.length() > 20) {
      return null;
    }
    long sequence;
    try {
      sequence = Long.parseLong(id.substring(lifePrefix.length() + 1), 36);
    } catch (NumberFormatException _) {
      return null;
    }
    Entry entry = sequence < 0 ? null : ring.get((int) (sequence % ring.length()));
    return entry != null && entry.sequence == sequence ? entry : null;
  }

  /** The newest decisions, newest first. */
  public List<Entry> latest(int limit) {
    List<Entry> found = new ArrayList<>();
    long newest = next.get() - 1;
    for (long s = newest; s >= 0 && s > newest - ring.length() && found.size() < limit; s--) {
      Entry entry = ring.get((int) (s % ring.length()));
      if (entry != null && entry.sequence == s) {
        found.add(entry);
      }
    }
    return found;
  }
}
