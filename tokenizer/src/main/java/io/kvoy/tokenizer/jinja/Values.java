// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.jspecify.annotations.Nullable;

/**
 * What Python's operators do, on the values of a template.
 *
 * <table>
 * <caption>Values</caption>
 * <tr><th>Python</th><th>here</th></tr>
 * <tr><td>None</td><td>{@link None}</td></tr>
 * <tr><td>bool, int, float</td><td>Boolean, Long or BigInteger, Double</td></tr>
 * <tr><td>str</td><td>String, or {@link Markup}</td></tr>
 * <tr><td>list, tuple, dict, range</td><td>{@link PyList}, {@link PyTuple}, {@link PyDict}, {@link PyRange}</td></tr>
 * <tr><td>dict views, iterators</td><td>{@link PyView}, {@link PyIterator}</td></tr>
 * <tr><td>Jinja's own</td><td>{@link Undefined}, {@link Namespace}, {@link LoopState}, {@link MacroValue}</td></tr>
 * <tr><td>functions, methods</td><td>{@link Callable}</td></tr>
 * </table>
 */
final class Values {
  private Values() {}

  static Object fromJson(Json json) {
    return switch (json) {
      case Json.Null _ -> None.NONE;
      case Json.Bool(boolean value) -> value;
      case Json.Int(long value) -> value;
      case Json.BigInt(BigInteger value) -> Numbers.shrink(value);
      case Json.Real(double value) -> value;
      case Json.Str(String value) -> value;
      case Json.Arr array -> new PyList(array);
      case Json.Obj object -> new PyDict(object);
    };
  }

  static boolean truth(Object value) {
    return switch (value) {
      case Boolean flag -> flag;
      case String text -> !text.isEmpty();
      case None _, Undefined _ -> false;
      case Long number -> number != 0;
      case Double number -> number != 0;
      case PyList list -> !list.items().isEmpty();
      case PyDict dict -> dict.size() > 0;
      case PyTuple tuple -> !tuple.items().isEmpty();
      case Markup(String text) -> !text.isEmpty();
      case PyRange range -> range.length() > 0;
      case PyView view -> view.dict().size() > 0;
      default -> true;
    };
  }

  /** The text when the value is a {@code str}, else null. */
  static @Nullable String asText(Object value) {
    return value instanceof String text ? text : value instanceof Markup(String safe) ? safe : null;
  }

  /** {@code len(value)}. */
  static long length(Object value) {
    return switch (value) {
      case String text -> Unicode.length(text);
      case Markup(String text) -> Unicode.length(text);
      case PyList list -> list.items().size();
      case PyTuple tuple -> tuple.items().size();
      case PyDict dict -> dict.size();
      case PyRange range -> range.length();
      case PyView view -> view.dict().size();
      case Undefined _ -> 0;
      case LoopState loop -> loop.length();
      default -> throw TemplateError.type();
    };
  }

  static boolean isIterable(Object value) {
    return switch (value) {
      case String _,
          Markup _,
          PyList _,
          PyTuple _,
          PyDict _,
          PyRange _,
          PyView _,
          PyIterator _,
          Undefined _,
          LoopState _ ->
          true;
      default -> false;
    };
  }

  /** {@code iter(value)}; fails when the value has no items. */
  static Iterator<Object> iterate(Object value) {
    return switch (value) {
      case PyList list -> list.items().iterator();
      case PyTuple tuple -> tuple.items().iterator();
      case PyDict dict -> dict.keys().iterator();
      case PyView view -> view.toList().iterator();
      case PyIterator(var items) -> items;
      case String text -> characters(text);
      case Markup(String text) -> characters(text);
      case PyRange range ->
          new Iterator<>() {
            private int index;
            private final int length = range.length();

            @Override
            public boolean hasNext() {
              return index < length;
            }

            @Override
            public Object next() {
              if (index >= length) {
                throw new NoSuchElementException();
              }
              return range.get(index++);
            }
          };
      case Undefined _ -> Collections.emptyIterator();
      case LoopState _ -> throw TemplateError.unsupported("loop_iteration");
      default -> throw TemplateError.type();
    };
  }

  private static Iterator<Object> characters(String text) {
    return new Iterator<>() {
      private int offset;

      @Override
      public boolean hasNext() {
        return offset < text.length();
      }

      @Override
      public Object next() {
        if (offset >= text.length()) {
          throw new NoSuchElementException();
        }
        int end = text.offsetByCodePoints(offset, 1);
        String character = text.substring(offset, end);
        offset = end;
        return character;
      }
    };
  }

  /** {@code list(value)}; what is returned is not to be modified. */
  static List<Object> toList(Render render, Object value) {
    if (value instanceof PyList list) {
      return list.items();
    }
    if (value instanceof PyTuple tuple) {
      return tuple.items();
    }
    List<Object> list = new ArrayList<>();
    Iterator<Object> items = iterate(value);
    while (items.hasNext()) {
      list.add(items.next());
      if ((list.size() & 1023) == 0) {
        render.items(list.size());
      }
    }
    render.items(list.size());
    return list;
  }

  // Equality and order

  @SuppressWarnings("ReferenceEquality") // Other objects are equal to themselves only.
  static boolean equal(Render render, Object a, Object b) {
    if (a instanceof String x && b instanceof String y) {
      return x.equals(y);
    }
    if (Numbers.isNumber(a) && Numbers.isNumber(b)) {
      return Numbers.compare(a, b) == 0;
    }
    String textA = asText(a);
    String textB = asText(b);
    if (textA != null || textB != null) {
      return textA != null && textA.equals(textB);
    }
    return switch (a) {
      case Undefined _ -> b instanceof Undefined;
      case PyList x -> b instanceof PyList y && equalItems(render, x.items(), y.items());
      case PyTuple x -> b instanceof PyTuple y && equalItems(render, x.items(), y.items());
      case PyDict x -> b instanceof PyDict y && equalDicts(render, x, y);
      case PyRange x -> b instanceof PyRange y && equalRanges(x, y);
      default -> a == b;
    };
  }

  private static boolean equalRanges(PyRange a, PyRange b) {
    int length = a.length();
    return length == b.length()
        && (length == 0 || (a.start() == b.start() && (length == 1 || a.step() == b.step())));
  }

  private static boolean equalItems(Render render, List<Object> a, List<Object> b) {
    if (a.size() != b.size()) {
      return false;
    }
    render.enter();
    render.items(a.size());
    for (int i = 0; i < a.size(); i++) {
      if (!same(render, a.get(i), b.get(i))) {
        render.leave();
        return false;
      }
    }
    render.leave();
    return true;
  }

  private static boolean equalDicts(Render render, PyDict a, PyDict b) {
    if (a.size() != b.size()) {
      return false;
    }
    render.enter();
    render.items(a.size());
    boolean result = true;
    for (PyDict.Entry entry : a.all()) {
      Object other = b.get(entry.key());
      if (other == null || !same(render, entry.value(), other)) {
        result = false;
        break;
      }
    }
    render.leave();
    return result;
  }

  /**
   * Identical or equal: how Python's containers compare their items, so that a NaN finds itself.
   */
  @SuppressWarnings("ReferenceEquality")
  static boolean same(Render render, Object a, Object b) {
    return a == b || equal(render, a, b);
  }

  /**
   * Whether the order of {@code a} and {@code b} is as {@code comparison} says, one of the four
   * with an order. Fails when the types have no order.
   */
  static boolean ordered(Render render, Node.Comparison comparison, Object a, Object b) {
    int order = compare(render, a, b);
    if (order == Integer.MIN_VALUE) {
      return false;
    }
    return switch (comparison) {
      case LESS -> order < 0;
      case LESS_EQUAL -> order <= 0;
      case GREATER -> order > 0;
      case GREATER_EQUAL -> order >= 0;
      case EQUAL, NOT_EQUAL, IN, NOT_IN -> throw new IllegalArgumentException(comparison.name());
    };
  }

  /**
   * Negative, zero or positive; {@code Integer.MIN_VALUE} when a NaN decides. Fails when there is
   * no order.
   */
  static int compare(Render render, Object a, Object b) {
    if (Numbers.isNumber(a) && Numbers.isNumber(b)) {
      return Numbers.compare(a, b);
    }
    String textA = asText(a);
    String textB = asText(b);
    if (textA != null && textB != null) {
      int order = Unicode.compare(textA, textB);
      return Integer.compare(order, 0);
    }
    if (a instanceof PyList x && b instanceof PyList y) {
      return compareItems(render, x.items(), y.items());
    }
    if (a instanceof PyTuple x && b instanceof PyTuple y) {
      return compareItems(render, x.items(), y.items());
    }
    if (a instanceof Undefined undefined) {
      throw undefined.error();
    }
    if (b instanceof Undefined undefined) {
      throw undefined.error();
    }
    if (a instanceof PyView || b instanceof PyView) {
      throw TemplateError.unsupported("view_order");
    }
    throw TemplateError.type();
  }

  private static int compareItems(Render render, List<Object> a, List<Object> b) {
    int n = Math.min(a.size(), b.size());
    render.enter();
    render.items(n);
    for (int i = 0; i < n; i++) {
      if (!same(render, a.get(i), b.get(i))) {
        int order = compare(render, a.get(i), b.get(i));
        render.leave();
        return order;
      }
    }
    render.leave();
    return Integer.compare(a.size(), b.size());
  }

  /** {@code item in container}. */
  static boolean contains(Render render, Object container, Object item) {
    return switch (container) {
      case String text -> containsText(text, item);
      case Markup(String text) -> containsText(text, item);
      case PyDict dict -> dict.contains(item);
      case PyView view when view.kind() == PyView.Kind.KEYS -> view.dict().contains(item);
      case PyRange range when item instanceof Long number -> {
        long distance = number - range.start();
        yield distance % range.step() == 0
            && distance / range.step() >= 0
            && distance / range.step() < range.length();
      }
      default -> {
        Iterator<Object> items = iterate(container);
        boolean found = false;
        while (!found && items.hasNext()) {
          render.work(1);
          found = same(render, items.next(), item);
        }
        yield found;
      }
    };
  }

  private static boolean containsText(String text, Object item) {
    String part = asText(item);
    if (part == null) {
      throw TemplateError.type();
    }
    return TextSearch.contains(text, part);
  }

  // Arithmetic

  static Object add(Render render, Object a, Object b) {
    if (a instanceof String x && b instanceof String y) {
      render.text((long) x.length() + y.length());
      return x.concat(y);
    }
    Object sum = Numbers.add(a, b);
    if (sum != null) {
      return sum;
    }
    String textA = asText(a);
    String textB = asText(b);
    if (textA != null && textB != null) {
      String escapedA = a instanceof Markup ? textA : Markup.escape(textA);
      String escapedB = b instanceof Markup ? textB : Markup.escape(textB);
      render.text((long) escapedA.length() + escapedB.length());
      return new Markup(escapedA + escapedB);
    }
    if (a instanceof PyList x && b instanceof PyList y) {
      return new PyList(joined(render, x.items(), y.items()));
    }
    if (a instanceof PyTuple x && b instanceof PyTuple y) {
      return new PyTuple(joined(render, x.items(), y.items()), false);
    }
    throw operandError(a, b);
  }

  private static List<Object> joined(Render render, List<Object> a, List<Object> b) {
    render.items((long) a.size() + b.size());
    List<Object> items = new ArrayList<>(a.size() + b.size());
    items.addAll(a);
    items.addAll(b);
    return items;
  }

  private static TemplateError operandError(Object a, Object b) {
    if (a instanceof Undefined undefined) {
      return undefined.error();
    }
    if (b instanceof Undefined undefined) {
      return undefined.error();
    }
    return TemplateError.type();
  }

  static Object binary(Render render, Node.BinaryOperator operator, Object a, Object b) {
    return switch (operator) {
      case ADD -> add(render, a, b);
      case SUBTRACT -> orError(Numbers.subtract(a, b), a, b);
      case MULTIPLY -> multiply(render, a, b);
      case DIVIDE -> orError(Numbers.divide(a, b), a, b);
      case FLOOR_DIVIDE -> orError(Numbers.floorDivide(a, b), a, b);
      case MODULO -> modulo(render, a, b);
      case POWER -> orError(Numbers.power(a, b), a, b);
      case AND, OR -> throw new IllegalArgumentException(operator.name());
    };
  }

  private static Object orError(@Nullable Object result, Object a, Object b) {
    if (result == null) {
      if (a instanceof PyView && b instanceof PyView) {
        throw TemplateError.unsupported("view_arithmetic");
      }
      throw operandError(a, b);
    }
    return result;
  }

  private static Object multiply(Render render, Object a, Object b) {
    Object product = Numbers.multiply(a, b);
    if (product != null) {
      return product;
    }
    if (Numbers.isInt(b)) {
      Object repeated = repeat(render, a, Numbers.index(b));
      if (repeated != null) {
        return repeated;
      }
    } else if (Numbers.isInt(a)) {
      Object repeated = repeat(render, b, Numbers.index(a));
      if (repeated != null) {
        return repeated;
      }
    }
    throw operandError(a, b);
  }

  private static @Nullable Object repeat(Render render, Object value, int times) {
    int count = Math.max(times, 0);
    return switch (value) {
      case String text -> {
        render.text((long) text.length() * count);
        yield text.repeat(count);
      }
      case Markup(String text) -> {
        render.text((long) text.length() * count);
        yield new Markup(text.repeat(count));
      }
      case PyList list -> new PyList(repeatItems(render, list.items(), count));
      case PyTuple tuple -> new PyTuple(repeatItems(render, tuple.items(), count), false);
      default -> null;
    };
  }

  private static List<Object> repeatItems(Render render, List<Object> items, int count) {
    render.items((long) items.size() * count);
    List<Object> repeated = new ArrayList<>(items.size() * count);
    if (!items.isEmpty()) {
      for (int i = 0; i < count; i++) {
        repeated.addAll(items);
      }
    }
    return repeated;
  }

  private static Object modulo(Render render, Object a, Object b) {
    if (a instanceof String format) {
      return PercentFormat.format(render, format, b);
    }
    if (a instanceof Markup) {
      throw TemplateError.unsupported("markup_format");
    }
    return orError(Numbers.modulo(a, b), a, b);
  }

  // Items and slices

  /** {@code value[key]} as templates have it: what is not there is undefined. */
  static Object item(Object value, Object key) {
    Object found = null;
    switch (value) {
      case PyDict dict -> found = isHashable(key) ? dict.get(key) : null;
      case PyList list -> found = itemAt(list.items(), key);
      case PyTuple tuple -> found = itemAt(tuple.items(), key);
      case String text -> found = characterAt(text, key);
      case Markup(String text) -> {
        String character = characterAt(text, key);
        found = character == null ? null : new Markup(character);
      }
      case PyRange range -> {
        if (Numbers.isInt(key)) {
          int index = Numbers.index(key);
          int length = range.length();
          int position = index < 0 ? index + length : index;
          found = position >= 0 && position < length ? (Object) range.get(position) : null;
        }
      }
      case Undefined undefined -> throw undefined.error();
      default -> {}
    }
    if (found != null) {
      return found;
    }
    String name = asText(key);
    Object attribute = name == null ? null : Attributes.find(value, name);
    return attribute == null ? Undefined.MISSING : attribute;
  }

  private static boolean isHashable(Object key) {
    return switch (key) {
      case PyList _, PyDict _ -> false;
      case PyView view -> view.kind() == PyView.Kind.VALUES;
      case PyTuple(var items, _) -> items.stream().allMatch(Values::isHashable);
      default -> true;
    };
  }

  private static @Nullable Object itemAt(List<Object> items, Object key) {
    if (!Numbers.isInt(key)) {
      return null;
    }
    int index = Numbers.index(key);
    int position = index < 0 ? index + items.size() : index;
    return position >= 0 && position < items.size() ? items.get(position) : null;
  }

  private static @Nullable String characterAt(String text, Object key) {
    if (!Numbers.isInt(key)) {
      return null;
    }
    int index = Numbers.index(key);
    int length = Unicode.length(text);
    int position = index < 0 ? index + length : index;
    if (position < 0 || position >= length) {
      return null;
    }
    int from = Unicode.offset(text, position);
    return text.substring(from, text.offsetByCodePoints(from, 1));
  }

  /** {@code value.name} as templates have it: the attribute, else the item, else undefined. */
  static Object attribute(Object value, String name) {
    Object attribute = Attributes.find(value, name);
    if (attribute != null) {
      return attribute;
    }
    if (value instanceof PyDict dict) {
      Object found = dict.get(name);
      if (found != null) {
        return found;
      }
    }
    return Undefined.MISSING;
  }

  /** {@code value[start:stop:step]}; {@link None} stands for a missing bound. */
  static Object slice(Render render, Object value, Object start, Object stop, Object step) {
    return switch (value) {
      case String text -> sliceText(render, text, start, stop, step);
      case Markup(String text) -> new Markup(sliceText(render, text, start, stop, step));
      case PyList list -> new PyList(sliceItems(render, list.items(), start, stop, step));
      case PyTuple tuple ->
          new PyTuple(sliceItems(render, tuple.items(), start, stop, step), false);
      case PyRange range -> {
        Bounds bounds = Bounds.of(range.length(), start, stop, step);
        yield new PyRange(
            range.start() + bounds.from * range.step(),
            range.start() + bounds.to * range.step(),
            range.step() * bounds.step);
      }
      case Undefined undefined -> throw undefined.error();
      default -> throw TemplateError.type();
    };
  }

  private static String sliceText(
      Render render, String text, Object start, Object stop, Object step) {
    boolean surrogates = Unicode.hasSurrogates(text);
    Bounds bounds = Bounds.of(surrogates ? Unicode.length(text) : text.length(), start, stop, step);
    int count = bounds.count();
    render.text(count);
    if (count == 0) {
      return "";
    }
    if (bounds.step == 1) {
      if (!surrogates) {
        return text.substring((int) bounds.from, (int) bounds.to);
      }
      int from = text.offsetByCodePoints(0, (int) bounds.from);
      return text.substring(from, text.offsetByCodePoints(from, count));
    }
    StringBuilder out = new StringBuilder(count);
    int[] codePoints = text.codePoints().toArray();
    for (int i = 0; i < count; i++) {
      out.appendCodePoint(codePoints[(int) (bounds.from + i * bounds.step)]);
    }
    return out.toString();
  }

  private static List<Object> sliceItems(
      Render render, List<Object> items, Object start, Object stop, Object step) {
    Bounds bounds = Bounds.of(items.size(), start, stop, step);
    int count = bounds.count();
    render.items(count);
    if (items instanceof KnownItems known && count > 0) {
      // With one item, a step may be beyond all numbers.
      return known.slice((int) bounds.from, count == 1 ? 1 : (int) bounds.step, count);
    }
    if (bounds.step == 1) {
      return count == 0 ? List.of() : items.subList((int) bounds.from, (int) bounds.from + count);
    }
    List<Object> slice = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      slice.add(items.get((int) (bounds.from + i * bounds.step)));
    }
    return slice;
  }

  /** Python's {@code slice.indices}. */
  private record Bounds(long from, long to, long step) {
    static Bounds of(int length, Object start, Object stop, Object step) {
      int by = step == None.NONE ? 1 : Numbers.index(step);
      if (by == 0) {
        throw TemplateError.value();
      }
      int low = by < 0 ? -1 : 0;
      int high = by < 0 ? length - 1 : length;
      long from = start == None.NONE ? (by < 0 ? high : low) : bound(start, length, low, high);
      long to = stop == None.NONE ? (by < 0 ? low : high) : bound(stop, length, low, high);
      return new Bounds(from, to, by);
    }

    private static long bound(Object value, int length, int low, int high) {
      int index = Numbers.index(value);
      return Math.clamp(index < 0 ? (long) index + length : index, low, Math.max(low, high));
    }

    int count() {
      if (step > 0) {
        return from < to ? (int) ((to - from - 1) / step + 1) : 0;
      }
      return to < from ? (int) ((from - to - 1) / -step + 1) : 0;
    }
  }

  static Object call(Render render, Object callee, Args args) {
    if (callee instanceof Callable function) {
      render.work(1);
      return function.call(render, args);
    }
    if (callee instanceof Undefined undefined) {
      throw undefined.error();
    }
    throw TemplateError.type();
  }
}
