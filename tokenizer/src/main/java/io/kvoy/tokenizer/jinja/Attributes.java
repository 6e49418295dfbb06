// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigInteger;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Attributes of values, methods included, as far as the sandbox shows them. Attributes come before
 * items: {@code schema.items} is a dict's method even when the dict has that key.
 */
final class Attributes {
  private static final Set<String> DICT_CHANGES =
      Set.of("clear", "pop", "popitem", "setdefault", "update");
  private static final Set<String> LIST_CHANGES =
      Set.of("append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove");

  /** Those that every object has; the sandbox hides all attributes with a leading underscore. */
  private static final Set<String> COMMON =
      Set.of(
          "__class__",
          "__delattr__",
          "__dir__",
          "__doc__",
          "__eq__",
          "__format__",
          "__ge__",
          "__getattribute__",
          "__getstate__",
          "__gt__",
          "__hash__",
          "__init__",
          "__init_subclass__",
          "__le__",
          "__lt__",
          "__ne__",
          "__new__",
          "__reduce__",
          "__reduce_ex__",
          "__repr__",
          "__setattr__",
          "__sizeof__",
          "__str__",
          "__subclasshook__");

  private static final Set<String> CONTAINER =
      Set.of("__len__", "__getitem__", "__iter__", "__contains__");

  private Attributes() {}

  /** The attribute, {@link Undefined#UNSAFE} when the sandbox hides it, null when there is none. */
  static @Nullable Object find(Object value, String name) {
    if (name.startsWith("_") && isHidden(value, name)) {
      return Undefined.UNSAFE;
    }
    return switch (value) {
      case PyDict dict -> ofDict(dict, name);
      case String text -> bind(text, name);
      case Markup(String text) -> bindMarkup(text, name);
      case LoopState loop -> loop.attribute(name);
      case Namespace namespace -> namespace.attributes.get(name);
      case PyList list -> ofList(list, name);
      case PyTuple tuple -> ofTuple(tuple, name);
      case Undefined undefined -> throw undefined.error();
      case Long _, Boolean _, BigInteger _ -> ofInt(value, name);
      case Double number -> ofFloat(number, name);
      case PyRange range -> ofRange(range, name);
      case PyView view -> ofView(view, name);
      case MacroValue macro -> macro.attribute(name);
      case Globals.Cycler cycler -> cycler.attribute(name);
      default -> null;
    };
  }

  private static boolean isHidden(Object value, String name) {
    if (value instanceof Undefined undefined) {
      throw undefined.error();
    }
    boolean container =
        value instanceof PyDict
            || value instanceof PyList
            || value instanceof PyTuple
            || value instanceof String
            || value instanceof Markup;
    return COMMON.contains(name) || (container && CONTAINER.contains(name));
  }

  private static @Nullable Object bind(String text, String name) {
    StrMethods.Method method = StrMethods.find(name);
    return method == null ? null : (Callable) (render, args) -> method.call(render, text, args);
  }

  private static @Nullable Object bindMarkup(String text, String name) {
    StrMethods.Method method = StrMethods.find(name);
    if (method == null) {
      return null;
    }
    return (Callable)
        (render, args) -> {
          // markupsafe escapes the arguments of most methods; only calls without any are plain.
          if (args.count() > 0 || !args.keywords().isEmpty()) {
            throw TemplateError.unsupported("markup_method");
          }
          Object result = method.call(render, text, args);
          return result instanceof String safe ? new Markup(safe) : result;
        };
  }

  private static @Nullable Object ofDict(PyDict dict, String name) {
    return switch (name) {
      case "get" -> (Callable) (_, args) -> get(dict, args);
      case "items" -> view(dict, PyView.Kind.ITEMS);
      case "keys" -> view(dict, PyView.Kind.KEYS);
      case "values" -> view(dict, PyView.Kind.VALUES);
      case "copy" ->
          (Callable)
              (_, args) -> {
                args.positional(0, 0);
                return dict;
              };
      case "fromkeys" -> (Callable) Attributes::fromKeys;
      default -> DICT_CHANGES.contains(name) ? Undefined.UNSAFE : null;
    };
  }

  static Object get(PyDict dict, Args args) {
    List<Object> given = args.positional(1, 2);
    Object found = dict.get(given.getFirst());
    return found != null ? found : given.size() > 1 ? given.get(1) : None.NONE;
  }

  private static Callable view(PyDict dict, PyView.Kind kind) {
    return (_, args) -> {
      args.positional(0, 0);
      return new PyView(kind, dict);
    };
  }

  private static Object fromKeys(Render render, Args args) {
    List<Object> given = args.positional(1, 2);
    Object value = given.size() > 1 ? given.get(1) : None.NONE;
    PyDict dict = new PyDict();
    for (Object key : Values.toList(render, given.getFirst())) {
      dict.put(key, value);
    }
    return dict;
  }

  private static @Nullable Object ofList(PyList list, String name) {
    return switch (name) {
      case "index" -> (Callable) (render, args) -> index(render, list.items(), args);
      case "count" -> (Callable) (render, args) -> count(render, list.items(), args);
      case "copy" ->
          (Callable)
              (_, args) -> {
                args.positional(0, 0);
                return new PyList(list.items());
              };
      default -> LIST_CHANGES.contains(name) ? Undefined.UNSAFE : null;
    };
  }

  private static @Nullable Object ofTuple(PyTuple tuple, String name) {
    return switch (name) {
      case "index" -> (Callable) (render, args) -> index(render, tuple.items(), args);
      case "count" -> (Callable) (render, args) -> count(render, tuple.items(), args);
      case "grouper" -> tuple.isGroup() ? tuple.items().get(0) : null;
      case "list" -> tuple.isGroup() ? tuple.items().get(1) : null;
      default -> null;
    };
  }

  private static Object index(Render render, List<Object> items, Args args) {
    List<Object> given = args.positional(1, 3);
    int from = given.size() > 1 ? bound(given.get(1), items.size()) : 0;
    int to = given.size() > 2 ? bound(given.get(2), items.size()) : items.size();
    for (int i = from; i < to; i++) {
      render.work(1);
      if (Values.same(render, items.get(i), given.getFirst())) {
        return (long) i;
      }
    }
    throw TemplateError.value();
  }

  private static int bound(Object value, int size) {
    int index = Numbers.index(value);
    return Math.clamp(index < 0 ? (long) index + size : index, 0, size);
  }

  private static Object count(Render render, List<Object> items, Args args) {
    Object wanted = args.positional(1, 1).getFirst();
    long count = 0;
    render.items(items.size());
    for (Object item : items) {
      if (Values.same(render, item, wanted)) {
        count++;
      }
    }
    return count;
  }

  private static @Nullable Object ofInt(Object value, String name) {
    return switch (name) {
      case "real", "numerator" -> Numbers.plus(value);
      case "imag" -> 0L;
      case "denominator" -> 1L;
      case "conjugate" -> constant(Numbers.plus(value));
      case "bit_length" -> constant((long) Numbers.big(value).abs().bitLength());
      case "bit_count" -> constant((long) Numbers.big(value).abs().bitCount());
      case "as_integer_ratio" -> constant(PyTuple.of(Numbers.plus(value), 1L));
      case "to_bytes", "from_bytes" -> missing(name);
      default -> null;
    };
  }

  private static @Nullable Object ofFloat(double value, String name) {
    return switch (name) {
      case "real" -> value;
      case "imag" -> 0.0;
      case "conjugate" -> constant(value);
      case "is_integer" -> constant(!Double.isInfinite(value) && value == Math.rint(value));
      case "as_integer_ratio", "hex", "fromhex" -> missing(name);
      default -> null;
    };
  }

  private static @Nullable Object ofRange(PyRange range, String name) {
    return switch (name) {
      case "start" -> range.start();
      case "stop" -> range.stop();
      case "step" -> range.step();
      case "index", "count" -> missing(name);
      default -> null;
    };
  }

  private static @Nullable Object ofView(PyView view, String name) {
    return switch (name) {
      case "mapping" -> view.dict();
      case "isdisjoint" -> missing(name);
      default -> null;
    };
  }

  private static Callable constant(Object value) {
    return (_, args) -> {
      args.positional(0, 0);
      return value;
    };
  }

  private static Callable missing(String name) {
    return (_, _) -> {
      throw TemplateError.unsupported("method_" + name);
    };
  }

  /** A dict as keyword arguments; fails on keys that are no text. */
  static Args keywords(PyDict dict) {
    return new Args(List.of(), keywordMap(dict));
  }

  static Map<String, Object> keywordMap(PyDict dict) {
    Map<String, Object> keywords = new LinkedHashMap<>();
    Iterator<PyDict.Entry> entries = dict.all().iterator();
    while (entries.hasNext()) {
      PyDict.Entry entry = entries.next();
      keywords.put(StrMethods.text(entry.key()), entry.value());
    }
    return keywords;
  }
}
