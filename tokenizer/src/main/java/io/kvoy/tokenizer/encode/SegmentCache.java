// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.inference.TokenIds;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Remembers the ids of text that came before, so that the next turn of a conversation only encodes
 * what is new.
 *
 * <p>Texts are kept in a radix tree: each node holds a stretch of text, its children go on from
 * there and differ in their first character. In the text are {@link CutPoints}, with the number of
 * ids up to each. A lookup walks down the tree as long as the text is the same, takes the ids up to
 * the last cut point on the way, and has the encoder do the rest. The ids are those of the whole
 * text because a cut point never has a token across it.
 *
 * <p>Texts are compared, not hashed: there are no collisions to fear from hostile texts, and
 * comparing blocks of characters costs about 0.1 ns each. The cost of a hit is that comparison and
 * a copy of the ids.
 *
 * <p>Threads: lookups take no lock; nodes are immutable but for the reference to their children,
 * which are replaced as a whole. Insertions take a lock and are skipped when another one is under
 * way.
 *
 * <p>Memory: at most {@code maxBytes} by the account of {@link Node#bytes}, about 3 bytes a
 * character. When an insertion goes beyond it, what was not used for longest goes, until three
 * quarters are left.
 */
public final class SegmentCache implements TextEncoder {

  /**
   * Cut points closer than this to the one before are not kept; a text of short messages would be
   * all bookkeeping.
   */
  private static final int MIN_SEGMENT_CHARS = 64;

  private static final int BLOCK_CHARS = 4096;

  /** A single text may take this share of the cache. */
  private static final int MAX_TEXT_SHARE = 8;

  private static final int NANOS_PER_TICK_BITS = 20;

  private final TextEncoder encoder;
  private final Cuts cutPoints;
  private final PostProcessor postProcessor;
  private final long maxBytes;
  private final LongSupplier ticks;
  private final ReentrantLock inserting = new ReentrantLock();

  @GuardedBy("inserting")
  private long bytes;

  private final Node root = new Node(new char[0], new int[0], new int[0], new int[0]);

  /**
   * @param encoder does what is not remembered
   * @param cutPoints those of its file
   * @param postProcessor that of its file
   * @param maxBytes bound of the memory taken
   */
  public SegmentCache(
      TextEncoder encoder, CutPoints cutPoints, PostProcessor postProcessor, long maxBytes) {
    this(encoder, (Cuts) cutPoints, postProcessor, maxBytes);
  }

  /** For texts of a form of their own. */
  SegmentCache(TextEncoder encoder, Cuts cutPoints, PostProcessor postProcessor, long maxBytes) {
    this(
        encoder,
        cutPoints,
        postProcessor,
        maxBytes,
        () -> System.nanoTime() >> NANOS_PER_TICK_BITS);
  }

  /**
   * @param ticks time of use, for deciding what goes first
   */
  SegmentCache(
      TextEncoder encoder,
      Cuts cutPoints,
      PostProcessor postProcessor,
      long maxBytes,
      LongSupplier ticks) {
    this.encoder = encoder;
    this.cutPoints = cutPoints;
    this.postProcessor = postProcessor;
    this.maxBytes = maxBytes;
    this.ticks = ticks;
  }

  @Override
  public int @Nullable [] encode(String text, boolean addSpecialTokens) {
    Whole whole = whole(text);
    return whole == null ? null : whole.ids(addSpecialTokens ? postProcessor : PostProcessor.NONE);
  }

  /** The ids of a text: what was remembered of it and what was encoded now. */
  private record Whole(Prefix known, Tail tail) {
    int[] ids(PostProcessor adds) {
      int[] ids = adds.roomFor(known.idCount + tail.idCount);
      tail.copyIds(ids, known.copyIds(ids, adds.before().size()));
      return ids;
    }
  }

  /** Encodes and remembers a text; null when it has a lone surrogate. */
  private @Nullable Whole whole(String text) {
    Prefix known = lookup(text);
    Tail tail = encodeTail(text, known.end);
    if (tail == null) {
      return null;
    }
    if (tail.cuts > 0) {
      remember(text, known, tail);
    }
    return new Whole(known, tail);
  }

  /**
   * Encodes a text in parts, only from the last cut point on up to which it is the text before.
   * Special tokens of the post-processor are not added.
   *
   * @param before a text that may begin alike; null when none is known
   * @return null when the text has a lone surrogate
   */
  public @Nullable EncodedText encode(List<String> parts, @Nullable EncodedText before) {
    int sameParts = before == null ? 0 : before.sameParts(parts);
    int last = before == null ? -1 : lastBy(before.cuts, before.sharedChars(parts, sameParts));
    if (before == null || last < 0) {
      return encodeWhole(parts);
    }
    int from = before.cuts[last];
    Tail tail = encodeTail(before.textFrom(parts, from), 0);
    if (tail == null) {
      return null;
    }
    int shared = before.cutIds[last];
    int[] others = new int[tail.idCount];
    tail.copyIds(others, 0);
    TokenIds ids = before.ids().then(shared, others);
    int known = last + 1;
    int[] cuts = Arrays.copyOf(before.cuts, known + tail.cuts);
    int[] cutIds = Arrays.copyOf(before.cutIds, known + tail.cuts);
    tail.copyCuts(cuts, cutIds, known, from, shared);
    return EncodedText.after(before, sameParts, parts, ids, cuts, cutIds, shared);
  }

  private @Nullable EncodedText encodeWhole(List<String> parts) {
    Whole whole = whole(String.join("", parts));
    if (whole == null) {
      return null;
    }
    Prefix known = whole.known;
    int count = known.cutCount();
    int[] cuts = new int[count + whole.tail.cuts];
    int[] cutIds = new int[count + whole.tail.cuts];
    known.copyCuts(cuts, cutIds);
    // The ends of the tail's cuts count from the start of the text.
    whole.tail.copyCuts(cuts, cutIds, count, 0, known.idCount);
    return EncodedText.of(parts, TokenIds.of(whole.ids(PostProcessor.NONE)), cuts, cutIds);
  }

  /** Index of the last value that is at most {@code limit}, or -1. */
  private static int lastBy(int[] ascending, int limit) {
    int found = Arrays.binarySearch(ascending, limit);
    return found >= 0 ? found : -found - 2;
  }

  /** The remembered ids at the start of a text. */
  private static final class Prefix {
    /** Nodes whose ids count in full, from the root down. */
    private final List<Node> whole = new ArrayList<>();

    /** A node of which only the first {@code partialIds} ids count, or null. */
    private @Nullable Node partial;

    private int partialIds;

    private int partialCuts;

    /** The last cut point in the whole nodes. */
    private int wholeEnd;

    /** The last cut point of all; 0 when nothing is remembered. */
    private int end;

    private int idCount;

    int cutCount() {
      int count = partialCuts;
      for (Node node : whole) {
        count += node.cuts.length;
      }
      return count;
    }

    /** Cut points of the known text and how many ids end at each. */
    void copyCuts(int[] cuts, int[] cutIds) {
      int at = 0;
      int text = 0;
      int ids = 0;
      for (Node node : whole) {
        copyShifted(node.cuts, 0, node.cuts.length, text, cuts, at);
        at = copyShifted(node.cutIds, 0, node.cuts.length, ids, cutIds, at);
        text += node.text.length;
        ids += node.ids.length;
      }
      if (partial != null) {
        copyShifted(partial.cuts, 0, partialCuts, text, cuts, at);
        copyShifted(partial.cutIds, 0, partialCuts, ids, cutIds, at);
      }
    }

    int copyIds(int[] into, int from) {
      int at = from;
      for (Node node : whole) {
        System.arraycopy(node.ids, 0, into, at, node.ids.length);
        at += node.ids.length;
      }
      if (partial != null) {
        System.arraycopy(partial.ids, 0, into, at, partialIds);
        at += partialIds;
      }
      return at;
    }
  }

  private Prefix lookup(String text) {
    var known = new Prefix();
    var block = new char[Math.min(BLOCK_CHARS, text.length())];
    long now = ticks.getAsLong();
    Node node = root;
    int at = 0;
    while (at < text.length()) {
      Node child = node.child(text.charAt(at));
      if (child == null) {
        break;
      }
      int same = sameChars(text, at, child.text, block);
      if (same < child.text.length) {
        int cut = child.lastCutBy(same);
        if (cut >= 0) {
          child.touch(now);
          known.partial = child;
          known.partialIds = child.cutIds[cut];
          known.partialCuts = cut + 1;
          known.idCount += known.partialIds;
          known.end = at + child.cuts[cut];
        }
        break;
      }
      child.touch(now);
      known.whole.add(child);
      known.idCount += child.ids.length;
      if (child.cuts.length > 0) {
        known.wholeEnd = at + child.cuts[child.cuts.length - 1];
        known.end = known.wholeEnd;
      }
      at += same;
      node = child;
    }
    return known;
  }

  /** How many characters of the node's text stand in the text at {@code from}. */
  private static int sameChars(String text, int from, char[] nodeText, char[] block) {
    int length = Math.min(nodeText.length, text.length() - from);
    for (int done = 0; done < length; done += BLOCK_CHARS) {
      int count = Math.min(BLOCK_CHARS, length - done);
      text.getChars(from + done, from + done + count, block, 0);
      int mismatch = Arrays.mismatch(block, 0, count, nodeText, done, done + count);
      if (mismatch >= 0) {
        return done + mismatch;
      }
    }
    return length;
  }

  /** The ids of the rest of a text, segment by segment. */
  private static final class Tail {
    private final List<int[]> segments = new ArrayList<>();
    private int idCount;

    /** Ends of the first segments; the last segment ends with the text and has none. */
    private int[] cutEnds = new int[4];

    /** Ids up to each of them, counted from the start of the tail. */
    private int[] cutIdCounts = new int[4];

    private int cuts;

    void add(int[] ids) {
      segments.add(ids);
      idCount += ids.length;
    }

    void addCut(int end) {
      if (cuts == cutEnds.length) {
        cutEnds = Arrays.copyOf(cutEnds, 2 * cuts);
        cutIdCounts = Arrays.copyOf(cutIdCounts, 2 * cuts);
      }
      cutEnds[cuts] = end;
      cutIdCounts[cuts] = idCount;
      cuts++;
    }

    /**
     * @param text where the tail's offsets count from
     * @param idsBefore ids in front of the tail
     */
    void copyCuts(int[] ends, int[] idCounts, int from, int text, int idsBefore) {
      copyShifted(cutEnds, 0, cuts, text, ends, from);
      copyShifted(cutIdCounts, 0, cuts, idsBefore, idCounts, from);
    }

    int copyIds(int[] into, int from) {
      int at = from;
      for (int[] ids : segments) {
        System.arraycopy(ids, 0, into, at, ids.length);
        at += ids.length;
      }
      return at;
    }
  }

  /**
   * Copies values, each greater by so much.
   *
   * @return index behind them
   */
  private static int copyShifted(int[] values, int start, int count, int by, int[] into, int from) {
    for (int i = 0; i < count; i++) {
      into[from + i] = values[start + i] + by;
    }
    return from + count;
  }

  private @Nullable Tail encodeTail(String text, int from) {
    var tail = new Tail();
    int start = from;
    while (start < text.length()) {
      int cut = cutPoints.next(text, start, start + MIN_SEGMENT_CHARS);
      int end = cut < 0 ? text.length() : cut;
      int[] ids = encoder.encode(text.substring(start, end), false);
      if (ids == null) {
        return null;
      }
      tail.add(ids);
      if (cut >= 0) {
        tail.addCut(cut);
      }
      start = end;
    }
    return tail;
  }

  private void remember(String text, Prefix known, Tail tail) {
    int end = tail.cutEnds[tail.cuts - 1];
    if (Node.bytes(end - known.end, tail.idCount, tail.cuts) > maxBytes / MAX_TEXT_SHARE
        || !inserting.tryLock()) {
      return;
    }
    try {
      insert(text, known, tail, end);
      if (bytes > maxBytes) {
        evict();
      }
    } finally {
      inserting.unlock();
    }
  }

  /**
   * Adds {@code text[0, end)} below the nodes that the lookup passed; skipped when one of them has
   * been replaced since.
   */
  @GuardedBy("inserting")
  private void insert(String text, Prefix known, Tail tail, int end) {
    Node parent = root;
    int at = 0;
    for (Node node : known.whole) {
      if (parent.child(node.text[0]) != node) {
        return;
      }
      parent = node;
      at += node.text.length;
    }
    int lastCut = known.wholeEnd;
    var block = new char[Math.min(BLOCK_CHARS, text.length())];
    while (at < end) {
      Node child = parent.child(text.charAt(at));
      if (child == null) {
        addIfKnown(parent, text, at, lastCut, known, tail, end);
        return;
      }
      int same = Math.min(sameChars(text, at, child.text, block), end - at);
      int cut = child.lastCutBy(same);
      if (cut >= 0) {
        lastCut = at + child.cuts[cut];
      }
      boolean isWhole = same == child.text.length;
      at += same;
      if (!isWhole && at < end) {
        addIfKnown(split(parent, child, same), text, at, lastCut, known, tail, end);
        return;
      }
      parent = child;
    }
  }

  /**
   * Adds the rest unless the node that the lookup took its last ids from is gone: they would be
   * missing.
   */
  @GuardedBy("inserting")
  private void addIfKnown(
      Node parent, String text, int at, int lastCut, Prefix known, Tail tail, int end) {
    if (lastCut >= known.end) {
      add(parent, text, at, lastCut, tail, end);
    }
  }

  @GuardedBy("inserting")
  private void add(Node parent, String text, int at, int lastCut, Tail tail, int end) {
    int firstCut = 0;
    int skippedIds = 0;
    while (firstCut < tail.cuts && tail.cutEnds[firstCut] <= lastCut) {
      skippedIds = tail.cutIdCounts[firstCut];
      firstCut++;
    }
    int count = tail.cuts - firstCut;
    var cuts = new int[count];
    var cutIds = new int[count];
    copyShifted(tail.cutEnds, firstCut, count, -at, cuts, 0);
    copyShifted(tail.cutIdCounts, firstCut, count, -skippedIds, cutIds, 0);
    var all = new int[tail.idCount];
    tail.copyIds(all, 0);
    var nodeText = new char[end - at];
    text.getChars(at, end, nodeText, 0);
    var node =
        new Node(
            nodeText,
            cuts,
            cutIds,
            Arrays.copyOfRange(all, skippedIds, skippedIds + cutIds[count - 1]));
    node.touch(ticks.getAsLong());
    parent.children = parent.children.with(node);
    bytes += node.bytes();
  }

  /** Replaces the child by its first {@code length} characters with the rest as their child. */
  @GuardedBy("inserting")
  private Node split(Node parent, Node child, int length) {
    int cut = child.lastCutBy(length);
    int headCuts = cut + 1;
    int headIds = cut < 0 ? 0 : child.cutIds[cut];
    var head =
        new Node(
            Arrays.copyOf(child.text, length),
            Arrays.copyOf(child.cuts, headCuts),
            Arrays.copyOf(child.cutIds, headCuts),
            Arrays.copyOf(child.ids, headIds));
    var rest =
        new Node(
            Arrays.copyOfRange(child.text, length, child.text.length),
            shifted(child.cuts, headCuts, length),
            shifted(child.cutIds, headCuts, headIds),
            Arrays.copyOfRange(child.ids, headIds, child.ids.length));
    head.touch(child.lastUse);
    rest.touch(child.lastUse);
    rest.children = child.children;
    head.children = Children.NONE.with(rest);
    parent.children = parent.children.with(head);
    bytes += head.bytes() + rest.bytes() - child.bytes();
    return head;
  }

  private static int[] shifted(int[] values, int from, int by) {
    int[] shifted = new int[values.length - from];
    copyShifted(values, from, shifted.length, -by, shifted, 0);
    return shifted;
  }

  @GuardedBy("inserting")
  private void evict() {
    List<Node> nodes = root.descendants();
    // A parent counts as used whenever a child was, whatever order concurrent lookups wrote their
    // times in.
    for (int i = nodes.size() - 1; i >= 0; i--) {
      Node node = nodes.get(i);
      for (Node child : node.children.nodes) {
        node.touch(Math.max(node.lastUse, child.lastUse));
      }
    }
    long[] uses = nodes.stream().mapToLong(node -> node.lastUse).sorted().toArray();
    long target = maxBytes - maxBytes / 4;
    int low = 0;
    int high = uses.length;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (bytesUsedSince(nodes, uses[middle]) > target) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    long keepFrom = low < uses.length ? uses[low] : Long.MAX_VALUE;
    root.children = root.children.usedSince(keepFrom);
    for (Node node : nodes) {
      if (node.lastUse >= keepFrom) {
        node.children = node.children.usedSince(keepFrom);
      }
    }
    bytes = countedBytes();
  }

  private static long bytesUsedSince(List<Node> nodes, long tick) {
    long sum = 0;
    for (Node node : nodes) {
      sum += node.lastUse >= tick ? node.bytes() : 0;
    }
    return sum;
  }

  @Override
  public long memoryBytes() {
    return bytes() + encoder.memoryBytes();
  }

  /** Bytes taken, by the account of the nodes. */
  long bytes() {
    inserting.lock();
    try {
      return bytes;
    } finally {
      inserting.unlock();
    }
  }

  /** Bytes of the nodes that are there, counted afresh. */
  long countedBytes() {
    return root.descendants().stream().mapToLong(Node::bytes).sum();
  }

  /**
   * A stretch of text.
   *
   * <p>{@code ids} are those from the last cut point above this node to the last one in it; {@code
   * cutIds} says how many of them end at each.
   */
  private static final class Node {
    /** Headers, references and the entry among the parent's children. */
    private static final int OVERHEAD_BYTES = 200;

    private final char[] text;

    /** Cut points as offsets into the text, ascending. */
    private final int[] cuts;

    private final int[] cutIds;
    private final int[] ids;

    /** Volatile because lookups read it without the lock of the insertion that replaces it. */
    private volatile Children children = Children.NONE;

    /**
     * Written by lookups without a lock; a lost or late write only makes eviction a little less
     * fair.
     */
    private long lastUse;

    Node(char[] text, int[] cuts, int[] cutIds, int[] ids) {
      this.text = text;
      this.cuts = cuts;
      this.cutIds = cutIds;
      this.ids = ids;
    }

    @Nullable Node child(char first) {
      return children.get(first);
    }

    void touch(long tick) {
      // Only when it changes: all threads pass the upper nodes, and a write takes the cache line
      // from the others.
      if (lastUse != tick) {
        lastUse = tick;
      }
    }

    /** Index of the last cut point that is at most {@code length}, or -1. */
    int lastCutBy(int length) {
      return lastBy(cuts, length);
    }

    long bytes() {
      return bytes(text.length, ids.length, cuts.length);
    }

    static long bytes(int chars, int ids, int cuts) {
      return OVERHEAD_BYTES + 2L * chars + 4L * ids + 8L * cuts;
    }

    /** All nodes below, parents before children. */
    List<Node> descendants() {
      var found = new ArrayList<Node>(Arrays.asList(children.nodes));
      for (int i = 0; i < found.size(); i++) {
        found.addAll(Arrays.asList(found.get(i).children.nodes));
      }
      return found;
    }
  }

  /** Children by their first character; immutable. */
  private static final class Children {
    private static final Children NONE = new Children(new char[0], new Node[0]);

    private final char[] firsts;
    private final Node[] nodes;

    Children(char[] firsts, Node[] nodes) {
      this.firsts = firsts;
      this.nodes = nodes;
    }

    @Nullable Node get(char first) {
      int found = Arrays.binarySearch(firsts, first);
      return found < 0 ? null : nodes[found];
    }

    /** With that node in place of the one that starts with the same character. */
    Children with(Node node) {
      char first = node.text[0];
      int found = Arrays.binarySearch(firsts, first);
      if (found >= 0) {
        Node[] replaced = nodes.clone();
        replaced[found] = node;
        return new Children(firsts, replaced);
      }
      int at = -found - 1;
      var moreFirsts = new char[firsts.length + 1];
      var moreNodes = new Node[nodes.length + 1];
      System.arraycopy(firsts, 0, moreFirsts, 0, at);
      System.arraycopy(nodes, 0, moreNodes, 0, at);
      moreFirsts[at] = first;
      moreNodes[at] = node;
      System.arraycopy(firsts, at, moreFirsts, at + 1, firsts.length - at);
      System.arraycopy(nodes, at, moreNodes, at + 1, nodes.length - at);
      return new Children(moreFirsts, moreNodes);
    }

    Children usedSince(long tick) {
      Node[] kept = Arrays.stream(nodes).filter(node -> node.lastUse >= tick).toArray(Node[]::new);
      if (kept.length == nodes.length) {
        return this;
      }
      var keptFirsts = new char[kept.length];
      for (int i = 0; i < kept.length; i++) {
        keptFirsts[i] = kept[i].text[0];
      }
      return new Children(keptFirsts, kept);
    }
  }
}
