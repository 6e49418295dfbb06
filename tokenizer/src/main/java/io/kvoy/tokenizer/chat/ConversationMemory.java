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
import java.util.SequencedMap;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
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

  /** What a message takes besides its characters, with its share of stretches. */
  private static final int MESSAGE_BYTES = 500;

  /**
   * Messages whose render is taken over as a whole: the more at once the better, but the last ones
   * are only ever part of a short stretch or of none.
   */
  private static final int LONG_STRETCH = 64;

  private static final int SHORT_STRETCH = 8;

  private static final Map<String, String> USUAL_ROLES =
      Stream.of("system", "user", "assistant", "tool")
          .collect(Collectors.toUnmodifiableMap(role -> role, role -> role));

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
   * Messages of a conversation, in arrays: a long conversation is walked through at each turn.
   *
   * @param sent as the request has them
   * @param roles of messages that have one, else null
   * @param texts of plain messages, which are a role and a text and nothing else; null for others
   * @param items the same as the template sees them
   * @param bytes about what the messages take up to each, without what loops write for them: that
   *     is the conversation's text
   * @param firstDeveloper index of the first message of a developer, or how many messages there are
   */
  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  private record Messages(
      Json.Obj[] sent,
      @Nullable String[] roles,
      @Nullable String[] texts,
      KnownItem[] items,
      long[] bytes,
      int firstDeveloper) {

    static final Messages NONE =
        new Messages(
            new Json.Obj[0], new String[0], new String[0], new KnownItem[0], new long[0], 0);

    /** The messages of a request, the first of them known. */
    static Messages of(List<Json.Obj> sent, Form form, Messages before, int known)
        throws ChatNormalizer.Stop {
      int count = sent.size();
      Json.Obj[] kept = Arrays.copyOf(before.sent, count);
      @Nullable String[] roles = Arrays.copyOf(before.roles, count);
      @Nullable String[] texts = Arrays.copyOf(before.texts, count);
      KnownItem[] items = Arrays.copyOf(before.items, count);
      long[] bytes = Arrays.copyOf(before.bytes, count);
      int firstDeveloper = before.firstDeveloper < known ? before.firstDeveloper : count;
      if (known < before.sent.length) {
        part(items, known);
      }
      for (int i = known; i < count; i++) {
        Json.Obj message = sent.get(i);
        kept[i] = message;
        roles[i] = role(message);
        texts[i] = plainText(message, roles[i]);
        items[i] =
            new KnownItem(
                ChatNormalizer.message(message, form.format, form.keepsKeyOrder),
                i % LONG_STRETCH == 0
                    ? KnownItem.Leads.LONG
                    : i % SHORT_STRETCH == 0 ? KnownItem.Leads.SHORT : KnownItem.Leads.NONE);
        bytes[i] = (i == 0 ? 0 : bytes[i - 1]) + MESSAGE_BYTES + 2 * chars(message);
        if (firstDeveloper > i && ChatNormalizer.hasRole(message, "developer")) {
          firstDeveloper = i;
        }
      }
      return new Messages(kept, roles, texts, items, bytes, firstDeveloper);
    }

    /**
     * Items of a conversation that goes another way than the one it has them from: stretches of the
     * last ones that both have may go on with the other one's messages, now or later.
     */
    private static void part(KnownItem[] items, int known) {
      for (int i = Math.max(0, known - LONG_STRETCH); i < known; i++) {
        int stretch = i % LONG_STRETCH == 0 ? LONG_STRETCH : SHORT_STRETCH;
        if (i % SHORT_STRETCH == 0 && i + stretch >= known) {
          items[i] = items[i].within(known - i);
        }
      }
    }

    /** The role of a message; usual ones are one object each, which stays in the cache. */
    private static @Nullable String role(Json.Obj message) {
      return message.get("role") instanceof Json.Str(String role)
          ? USUAL_ROLES.getOrDefault(role, role)
          : null;
    }

    /**
     * How many messages in front are the same.
     *
     * @param compared another conversation, of whose messages the first {@code same} are known to
     *     be those sent; branches of one conversation have the same objects
     */
    @SuppressWarnings("ReferenceEquality")
    int same(List<Json.Obj> others, Messages compared, int same) {
      int count = Math.min(sent.length, others.size());
      int start = 0;
      int limit = Math.min(count, same);
      while (start < limit && sent[start] == compared.sent[start]) {
        start++;
      }
      // A body that begins like an earlier one brings the same objects.
      while (start < count && sent[start] == others.get(start)) {
        start++;
      }
      // All texts are found before any is compared: finding one is waiting for memory, and the next
      // message need not wait for it.
      @Nullable String[] found = new @Nullable String[count - start];
      int end = start;
      while (end < count) {
        Json.Obj other = others.get(end);
        String text = texts[end];
        if (text == null) {
          if (!ConversationMemory.isSame(sent[end], other)) {
            break;
          }
        } else {
          String otherText = plainText(other, roles[end]);
          if (otherText == null || otherText.length() != text.length()) {
            break;
          }
          found[end - start] = otherText;
        }
        end++;
      }
      for (int i = start; i < end; i++) {
        String text = texts[i];
        if (text != null && !text.equals(found[i - start])) {
          return i;
        }
      }
      return end;
    }

    /** The text of a plain message of that role, else null. */
    private static @Nullable String plainText(Json.Obj message, @Nullable String role) {
      SequencedMap<String, Json> fields = message.fields();
      if (fields.size() != 2) {
        return null;
      }
      Iterator<Map.Entry<String, Json>> entries = fields.entrySet().iterator();
      Map.Entry<String, Json> first = entries.next();
      Map.Entry<String, Json> second = entries.next();
      return first.getKey().equals("role")
              && first.getValue() instanceof Json.Str(String own)
              && own.equals(role)
              && second.getKey().equals("content")
              && second.getValue() instanceof Json.Str(String text)
          ? text
          : null;
    }

    /**
     * What loops write for a message from now on is bounded by about its own size.
     *
     * @param from the first one that is not remembered already
     */
    void remembered(int from) {
      for (int i = from; i < bytes.length; i++) {
        items[i].remembered((bytes[i] - (i == 0 ? 0 : bytes[i - 1])) / 2);
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
      return from != null && known == from.messages.sent.length ? from : null;
    }

    /** What the template gets. */
    List<KnownItem> items() {
      return Arrays.asList(messages.items);
    }

    /** Whether a message is a developer's. */
    boolean hasDeveloper() {
      return messages.firstDeveloper < messages.sent.length;
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
    for (Conversation known : byBeginning.getOrDefault(beginning, NONE)) {
      int same =
          known.form.equals(form)
              ? known.messages.same(sent, best == null ? Messages.NONE : best.messages, most)
              : 0;
      if (same > most) {
        best = known;
        most = same;
      }
      if (same == sent.size()) {
        break;
      }
    }
    if (best != null) {
      best.lastUse = ticks.getAsLong();
    }
    Messages before = best == null ? Messages.NONE : best.messages;
    return new Turn(beginning, form, Messages.of(sent, form, before, most), best, most);
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
    } else if (replaced != null) {
      // Another one that goes on from it has taken its place meanwhile.
      Messages.part(turn.messages.items, turn.known);
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
