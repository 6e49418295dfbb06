// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.inference.Json;
import io.kvoy.tokenizer.encode.EncodedText;
import io.kvoy.tokenizer.jinja.KnownItem;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Remembers conversations, so that the next turn of one costs little more than what is new in it:
 * its messages as the template sees them, what the template's loops wrote for each ({@link
 * KnownItem}), and the ids of the text.
 *
 * <p>Conversations are found by the messages up to the first one of the user, and their messages
 * are compared, in the order of their fields, with those that come: a hash only says where to look.
 * A few conversations that begin alike are kept, the last used ones.
 *
 * <p>Threads: {@link #recall} takes no lock. {@link #keep} takes one, and keeps nothing while
 * another thread has it. What is remembered is immutable but for the traces of its items, which
 * look after themselves.
 *
 * <p>Memory: at most {@code maxBytes} by the account of each conversation, about 5 bytes a
 * character of Latin text. Beyond it the conversations that were not used for longest go, until
 * three quarters are left.
 */
public final class ConversationMemory {
  /** Conversations that begin alike. */
  private static final int MAX_BRANCHES = 4;

  /** Messages that say where to look, and characters of each. */
  private static final int HASHED_MESSAGES = 4;

  private static final int HASHED_CHARS = 512;

  /** A single conversation may take this share. */
  private static final int MAX_SHARE = 8;

  /** What a message takes besides its characters. */
  private static final int MESSAGE_BYTES = 500;

  private static final int NANOS_PER_TICK_BITS = 20;

  private final long maxBytes;
  private final LongSupplier ticks;
  private final Map<Long, Conversation[]> byBeginning = new ConcurrentHashMap<>();
  private final ReentrantLock keeping = new ReentrantLock();

  @GuardedBy("keeping")
  private long bytes;

  public ConversationMemory(long maxBytes) {
    this(maxBytes, () -> System.nanoTime() >> NANOS_PER_TICK_BITS);
  }

  /**
   * @param ticks time of use, for deciding what goes first
   */
  ConversationMemory(long maxBytes, LongSupplier ticks) {
    this.maxBytes = maxBytes;
    this.ticks = ticks;
  }

  /** How messages were made ready for the template; another way makes other messages. */
  record Form(ContentFormat format, boolean keepsKeyOrder) {}

  /**
   * Remembered messages.
   *
   * @param sent as the request has them
   * @param items the same as the template sees them
   * @param bytes about what the messages take up to each, without what loops write for them: that
   *     is the conversation's text
   */
  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  private record Messages(List<Json.Obj> sent, List<KnownItem> items, long[] bytes) {
    /**
     * What loops write for a message from now on is bounded by about its own size.
     *
     * @param from the first one that is not remembered already
     */
    void remembered(int from) {
      for (int i = from; i < bytes.length; i++) {
        items.get(i).remembered((bytes[i] - (i == 0 ? 0 : bytes[i - 1])) / 2);
      }
    }

    long totalBytes() {
      return bytes.length == 0 ? 0 : bytes[bytes.length - 1];
    }
  }

  private static final class Conversation {
    private final Form form;
    private final Messages messages;
    private final EncodedText text;
    private final long bytes;

    /** A lost or late write only makes eviction a little less fair. */
    private volatile long lastUse;

    Conversation(Form form, Messages messages, EncodedText text) {
      this.form = form;
      this.messages = messages;
      this.text = text;
      this.bytes = 200 + text.bytes() + messages.totalBytes();
    }
  }

  /** The messages of a request, as far as possible those that are remembered. One request's. */
  public static final class Turn {
    private final long beginning;
    private final Form form;
    private final Messages messages;

    /** The conversation that has most of the messages, null when none has any. */
    private final @Nullable Conversation from;

    /** Messages in front that are its. */
    private final int known;

    private Turn(
        long beginning, Form form, Messages messages, @Nullable Conversation from, int known) {
      this.beginning = beginning;
      this.form = form;
      this.messages = messages;
      this.from = from;
      this.known = known;
    }

    /** The conversation that this one takes the place of: it has all of its messages. */
    private @Nullable Conversation replaced() {
      return from != null && known == from.messages.sent.size() ? from : null;
    }

    /** What the template gets. */
    List<KnownItem> items() {
      return messages.items;
    }

    /** The text of the conversation that begins like this one; null when none does. */
    public @Nullable EncodedText before() {
      return from == null ? null : from.text;
    }
  }

  /** Finds the conversation that has most of these messages, and makes the others ready. */
  Turn recall(List<Json.Obj> sent, Form form) throws ChatNormalizer.Stop {
    long beginning = beginning(sent);
    Conversation best = null;
    int most = 0;
    List<Json.Obj> compared = List.of();
    for (Conversation known : byBeginning.getOrDefault(beginning, NONE)) {
      int same = known.form.equals(form) ? sameMessages(known.messages.sent, sent, compared) : 0;
      if (same > most) {
        best = known;
        most = same;
        compared = known.messages.sent.subList(0, most);
      }
      if (same == sent.size()) {
        break;
      }
    }
    List<Json.Obj> kept = new ArrayList<>(sent.size());
    List<KnownItem> items = new ArrayList<>(sent.size());
    long[] bytes = new long[sent.size()];
    if (best != null) {
      best.lastUse = ticks.getAsLong();
      System.arraycopy(best.messages.bytes, 0, bytes, 0, most);
      kept.addAll(best.messages.sent.subList(0, most));
      items.addAll(best.messages.items.subList(0, most));
    }
    for (int i = most; i < sent.size(); i++) {
      Json.Obj message = sent.get(i);
      kept.add(message);
      items.add(new KnownItem(ChatNormalizer.message(message, form.format, form.keepsKeyOrder)));
      bytes[i] = (i == 0 ? 0 : bytes[i - 1]) + MESSAGE_BYTES + 2 * chars(message);
    }
    return new Turn(beginning, form, new Messages(kept, items, bytes), best, most);
  }

  private static final Conversation[] NONE = {};

  /** Remembers a conversation with its text, in place of the one that it goes on from. */
  public void keep(Turn turn, EncodedText text) {
    var conversation = new Conversation(turn.form, turn.messages, text);
    conversation.lastUse = ticks.getAsLong();
    if (conversation.bytes > maxBytes / MAX_SHARE || !keeping.tryLock()) {
      return;
    }
    try {
      turn.messages.remembered(turn.known);
      put(turn, conversation);
      if (bytes > maxBytes) {
        evict();
      }
    } finally {
      keeping.unlock();
    }
  }

  @GuardedBy("keeping")
  private void put(Turn turn, Conversation conversation) {
    List<Conversation> branches =
        new ArrayList<>(List.of(byBeginning.getOrDefault(turn.beginning, NONE)));
    Conversation replaced = turn.replaced();
    if (replaced != null && branches.remove(replaced)) {
      bytes -= replaced.bytes;
    }
    while (branches.size() >= MAX_BRANCHES) {
      Conversation oldest =
          Collections.min(branches, Comparator.comparingLong(known -> known.lastUse));
      branches.remove(oldest);
      bytes -= oldest.bytes;
    }
    branches.addFirst(conversation);
    bytes += conversation.bytes;
    byBeginning.put(turn.beginning, branches.toArray(Conversation[]::new));
  }

  /** A conversation and when it was used last, which may change while others are looked at. */
  private record Used(Conversation conversation, long lastUse) {}

  @GuardedBy("keeping")
  private void evict() {
    List<Used> all = new ArrayList<>();
    for (Conversation[] branches : byBeginning.values()) {
      for (Conversation known : branches) {
        all.add(new Used(known, known.lastUse));
      }
    }
    all.sort(Comparator.comparingLong(Used::lastUse).reversed());
    Set<Conversation> kept = new HashSet<>();
    long keptBytes = 0;
    for (Used used : all) {
      if (keptBytes + used.conversation.bytes > maxBytes - maxBytes / 4) {
        break;
      }
      keptBytes += used.conversation.bytes;
      kept.add(used.conversation);
    }
    Iterator<Map.Entry<Long, Conversation[]>> entries = byBeginning.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry<Long, Conversation[]> entry = entries.next();
      Conversation[] left =
          Arrays.stream(entry.getValue()).filter(kept::contains).toArray(Conversation[]::new);
      if (left.length == 0) {
        entries.remove();
      } else if (left.length < entry.getValue().length) {
        entry.setValue(left);
      }
    }
    bytes = keptBytes;
  }

  /** Bytes taken, by the account of the conversations. */
  public long bytes() {
    keeping.lock();
    try {
      return bytes;
    } finally {
      keeping.unlock();
    }
  }

  private static long beginning(List<Json.Obj> messages) {
    long hash = 1;
    int count = Math.min(messages.size(), HASHED_MESSAGES);
    for (int i = 0; i < count; i++) {
      Json.Obj message = messages.get(i);
      hash = hash * 0x9E3779B97F4A7C15L + beginning(message.get("content"));
      if (ChatNormalizer.hasRole(message, "user")) {
        break;
      }
    }
    return hash;
  }

  private static int beginning(@Nullable Json content) {
    return switch (content) {
      case Json.Str(String text) ->
          31 * text.length()
              + (text.length() <= HASHED_CHARS ? text : text.substring(0, HASHED_CHARS)).hashCode();
      case Json.Arr(List<Json> parts) ->
          parts.isEmpty() || !(parts.getFirst() instanceof Json.Obj part)
              ? 1
              : 7 * parts.size() + beginning(part.get("text"));
      case null, default -> 0;
    };
  }

  /**
   * How many messages in front are the same.
   *
   * @param compared messages in front of {@code sent} that another conversation has; branches of
   *     one conversation have the same objects
   */
  @SuppressWarnings("ReferenceEquality")
  private static int sameMessages(
      List<Json.Obj> known, List<Json.Obj> sent, List<Json.Obj> compared) {
    int count = Math.min(known.size(), sent.size());
    for (int i = 0; i < count; i++) {
      Json.Obj message = known.get(i);
      if ((i >= compared.size() || message != compared.get(i)) && !isSame(message, sent.get(i))) {
        return i;
      }
    }
    return count;
  }

  /** Whether a template can see no difference: the order of fields counts, 1 and 1.0 differ. */
  @SuppressWarnings("ReferenceEquality") // sooner than comparing what is the same object
  private static boolean isSame(Json a, Json b) {
    if (a == b) {
      return true;
    }
    if (a instanceof Json.Obj x && b instanceof Json.Obj y) {
      if (x.fields().size() != y.fields().size()) {
        return false;
      }
      Iterator<Map.Entry<String, Json>> others = y.fields().entrySet().iterator();
      for (Map.Entry<String, Json> field : x.fields().entrySet()) {
        Map.Entry<String, Json> other = others.next();
        if (!field.getKey().equals(other.getKey()) || !isSame(field.getValue(), other.getValue())) {
          return false;
        }
      }
      return true;
    }
    if (a instanceof Json.Arr(List<Json> x) && b instanceof Json.Arr(List<Json> y)) {
      if (x.size() != y.size()) {
        return false;
      }
      for (int i = 0; i < x.size(); i++) {
        if (!isSame(x.get(i), y.get(i))) {
          return false;
        }
      }
      return true;
    }
    return a.equals(b);
  }

  private static long chars(Json value) {
    return switch (value) {
      case Json.Str(String text) -> text.length();
      case Json.Arr(List<Json> items) -> {
        long sum = 0;
        for (Json item : items) {
          sum += 16 + chars(item);
        }
        yield sum;
      }
      case Json.Obj object -> {
        long sum = 0;
        for (Map.Entry<String, Json> field : object.fields().entrySet()) {
          sum += 24L + field.getKey().length() + chars(field.getValue());
        }
        yield sum;
      }
      case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _ -> 8;
    };
  }
}
