// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.SequencedMap;
import java.util.Set;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * The few fields of most JSON objects, in their order, in two arrays: messages of a long
 * conversation are walked through at each turn, and every object of a hash table is a wait for
 * memory. Immutable.
 */
final class FewFields extends AbstractMap<String, Json> implements SequencedMap<String, Json> {
  /** With more, looking through all of them takes longer than hashing. */
  static final int MAX = 8;

  private final String[] names;
  private final Json[] values;

  /**
   * @param fields at most {@link #MAX}
   */
  FewFields(Map<String, Json> fields) {
    names = new String[fields.size()];
    values = new Json[names.length];
    int count = 0;
    for (Entry<String, Json> field : fields.entrySet()) {
      names[count] = field.getKey();
      values[count++] = field.getValue();
    }
  }

  private int index(@Nullable Object name) {
    for (int i = 0; i < names.length; i++) {
      if (names[i].equals(name)) {
        return i;
      }
    }
    return -1;
  }

  @Override
  public int size() {
    return names.length;
  }

  @Override
  public boolean containsKey(@Nullable Object name) {
    return index(name) >= 0;
  }

  @Override
  public @Nullable Json get(@Nullable Object name) {
    int index = index(name);
    return index < 0 ? null : values[index];
  }

  @Override
  public void forEach(BiConsumer<? super String, ? super Json> action) {
    for (int i = 0; i < names.length; i++) {
      action.accept(names[i], values[i]);
    }
  }

  @Override
  public Set<Entry<String, Json>> entrySet() {
    return new AbstractSet<>() {
      @Override
      public int size() {
        return names.length;
      }

      @Override
      public Iterator<Entry<String, Json>> iterator() {
        return new Entries();
      }
    };
  }

  private final class Entries implements Iterator<Entry<String, Json>> {
    private int next;

    @Override
    public boolean hasNext() {
      return next < names.length;
    }

    @Override
    public Entry<String, Json> next() {
      if (next == names.length) {
        throw new NoSuchElementException();
      }
      int index = next++;
      return new SimpleImmutableEntry<>(names[index], values[index]);
    }
  }

  @Override
  public SequencedMap<String, Json> reversed() {
    return Collections.unmodifiableSequencedMap(new LinkedHashMap<>(this).reversed());
  }
}
