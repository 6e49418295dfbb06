// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A dict, in insertion order. The sandbox lets no template change one, so it is fixed once made.
 * Keys that are equal in Python ({@code 1}, {@code 1.0}, {@code True}) are one key, kept as first
 * written. One that came as JSON is unpacked on first use only. Belongs to one render.
 */
final class PyDict {

  /** An entry under its key as first written. */
  record Entry(Object key, Object value) {}

  private final Json.@Nullable Obj json;
  private @Nullable Map<Object, Entry> entries;

  private final @Nullable KnownItem known;

  PyDict() {
    this.json = null;
    this.known = null;
    this.entries = new LinkedHashMap<>();
  }

  PyDict(Json.Obj json) {
    this.json = json;
    this.known = null;
  }

  /** One that other renders may have met. */
  PyDict(KnownItem known) {
    this.json = null;
    this.known = known;
  }

  private Map<Object, Entry> entries() {
    Map<Object, Entry> unpacked = entries;
    if (unpacked == null) {
      Map<String, Json> source = java.util.Objects.requireNonNull(json()).fields();
      unpacked = LinkedHashMap.newLinkedHashMap(source.size());
      for (Map.Entry<String, Json> field : source.entrySet()) {
        unpacked.put(field.getKey(), new Entry(field.getKey(), Values.fromJson(field.getValue())));
      }
      entries = unpacked;
    }
    return unpacked;
  }

  /** Only for whoever makes the dict. */
  void put(Object key, Object value) {
    Object hashed = hashKey(key);
    Entry old = entries().get(hashed);
    entries().put(hashed, new Entry(old == null ? key : old.key(), value));
  }

  /** The value, or null when the key is absent. Fails as Python does on unhashable keys. */
  @Nullable Object get(Object key) {
    Entry entry = entries().get(key instanceof String ? key : hashKey(key));
    return entry == null ? null : entry.value();
  }

  boolean contains(Object key) {
    return get(key) != null;
  }

  int size() {
    Json.Obj came = json();
    return came != null ? came.fields().size() : entries().size();
  }

  Iterable<Entry> all() {
    return entries().values();
  }

  List<Object> keys() {
    List<Object> keys = new ArrayList<>(size());
    for (Entry entry : all()) {
      keys.add(entry.key());
    }
    return keys;
  }

  /** What is known from other renders, null for most. */
  @Nullable KnownItem known() {
    return known;
  }

  /** The JSON that this dict came as, null for dicts that a template made. */
  Json.@Nullable Obj json() {
    // Asked for only now: most messages of a long conversation are never looked into.
    return known == null ? json : known.json();
  }

  private record TupleKey(List<Object> items) {}

  /** What stands for a value in a hash table: equal exactly when Python calls the values equal. */
  static Object hashKey(Object key) {
    return switch (key) {
      case String _, Long _, None _, java.math.BigInteger _ -> key;
      case Boolean flag -> flag ? 1L : 0L;
      case Double number -> Numbers.hashKey(number);
      case Markup(String text) -> text;
      case Undefined undefined -> undefined == Undefined.UNSAFE ? Undefined.MISSING : undefined;
      case PyTuple tuple -> {
        List<Object> items = new ArrayList<>(tuple.items().size());
        for (Object item : tuple.items()) {
          items.add(hashKey(item));
        }
        yield new TupleKey(items);
      }
      case PyList _, PyDict _ -> throw TemplateError.type();
      case PyView view when view.kind() != PyView.Kind.VALUES -> throw TemplateError.type();
      default -> key;
    };
  }
}
