// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The global functions: Jinja2's own, and the two that transformers 5.19 adds. */
final class Globals {
  private static final Map<String, Callable> FUNCTIONS = new HashMap<>();

  static {
    FUNCTIONS.put("range", Globals::range);
    FUNCTIONS.put("dict", Globals::dict);
    FUNCTIONS.put("namespace", Globals::namespace);
    FUNCTIONS.put("cycler", (_, args) -> new Cycler(args));
    FUNCTIONS.put("joiner", (render, args) -> new Joiner(render, args));
    FUNCTIONS.put(
        "lipsum",
        (_, _) -> {
          throw TemplateError.unsupported("function_lipsum");
        });
    FUNCTIONS.put(
        "raise_exception",
        (render, args) -> {
          Object message = args.bind(1, "message")[0];
          throw TemplateError.refused(Repr.str(render, java.util.Objects.requireNonNull(message)));
        });
    FUNCTIONS.put(
        "strftime_now",
        (render, args) -> {
          Object format = args.bind(1, "format")[0];
          return Strftime.format(render, StrMethods.text(java.util.Objects.requireNonNull(format)));
        });
  }

  private Globals() {}

  static @Nullable Callable get(String name) {
    return FUNCTIONS.get(name);
  }

  /**
   * Whether plain Jinja2 knows the name, so that vLLM takes no variable of that name from a
   * request.
   */
  static boolean isJinjaGlobal(String name) {
    return FUNCTIONS.containsKey(name)
        && !name.equals("raise_exception")
        && !name.equals("strftime_now");
  }

  private static Object range(Render render, Args args) {
    List<Object> given = args.positional(1, 3);
    for (Object bound : given) {
      if (!Numbers.isInt(bound)) {
        throw TemplateError.type();
      }
    }
    long start = given.size() > 1 ? Numbers.index(given.get(0)) : 0;
    long stop = Numbers.index(given.get(given.size() > 1 ? 1 : 0));
    long step = given.size() > 2 ? Numbers.index(given.get(2)) : 1;
    if (step == 0) {
      throw TemplateError.value();
    }
    PyRange range = new PyRange(start, stop, step);
    // The sandbox's own limit (jinja2/sandbox.py MAX_RANGE).
    if (range.length() > 100_000) {
      throw TemplateError.overflow();
    }
    render.items(0);
    return range;
  }

  private static Object dict(Render render, Args args) {
    if (args.count() > 1) {
      throw TemplateError.type();
    }
    PyDict dict = new PyDict();
    if (args.count() == 1) {
      switch (args.positional().getFirst()) {
        case PyDict source -> source.all().forEach(entry -> dict.put(entry.key(), entry.value()));
        case Object pairs -> {
          for (Object pair : Values.toList(render, pairs)) {
            List<Object> items = Values.toList(render, pair);
            if (items.size() != 2) {
              throw TemplateError.value();
            }
            dict.put(items.get(0), items.get(1));
          }
        }
      }
    }
    args.keywords().forEach(dict::put);
    render.items(dict.size());
    return dict;
  }

  private static Object namespace(Render render, Args args) {
    Namespace namespace = new Namespace();
    PyDict values = (PyDict) dict(render, args);
    for (PyDict.Entry entry : values.all()) {
      String name = Values.asText(entry.key());
      if (name != null) {
        namespace.attributes.put(name, entry.value());
      }
    }
    return namespace;
  }

  /** What {@code cycler()} returns: hands out its items in turn. Belongs to one render. */
  static final class Cycler {
    private final List<Object> items;
    private int position;

    Cycler(Args args) {
      this.items = args.positional(0, Integer.MAX_VALUE);
      if (items.isEmpty()) {
        throw TemplateError.runtime();
      }
    }

    @Nullable Object attribute(String name) {
      return switch (name) {
        case "current" -> items.get(position);
        case "pos" -> (long) position;
        case "items" -> new PyTuple(items, false);
        case "next", "__next__" ->
            (Callable)
                (_, args) -> {
                  args.positional(0, 0);
                  Object item = items.get(position);
                  position = (position + 1) % items.size();
                  return item;
                };
        case "reset" ->
            (Callable)
                (_, args) -> {
                  args.positional(0, 0);
                  position = 0;
                  return None.NONE;
                };
        default -> null;
      };
    }
  }

  /** What {@code joiner()} returns: nothing when first called, its separator from then on. */
  private static final class Joiner implements Callable {
    private final Object separator;
    private boolean used;

    Joiner(Render render, Args args) {
      Object given = args.bind(0, "sep")[0];
      render.work(1);
      this.separator = given == null ? ", " : given;
    }

    @Override
    public Object call(Render render, Args args) {
      args.positional(0, 0);
      if (!used) {
        used = true;
        return "";
      }
      return separator;
    }
  }
}
