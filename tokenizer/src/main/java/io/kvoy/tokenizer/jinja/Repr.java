// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigInteger;
import java.util.List;
import java.util.Locale;

/** Python's {@code str} and {@code repr} of values. */
final class Repr {
  private Repr() {}

  /** {@code str(value)}, what a template prints. */
  static String str(Render render, Object value) {
    return switch (value) {
      case String text -> text;
      case Markup(String text) -> text;
      case Undefined _ -> "";
      case Long number -> Long.toString(number);
      default -> {
        StringBuilder out = new StringBuilder();
        repr(render, value, out);
        yield out.toString();
      }
    };
  }

  static String repr(Render render, Object value) {
    StringBuilder out = new StringBuilder();
    repr(render, value, out);
    return out.toString();
  }

  private static void repr(Render render, Object value, StringBuilder out) {
    switch (value) {
      case None _ -> out.append("None");
      case Boolean flag -> out.append(flag ? "True" : "False");
      case Long number -> out.append(number.longValue());
      case BigInteger number -> out.append(number);
      case Double number -> out.append(Numbers.repr(number));
      case String text -> quote(render, text, out);
      case Markup(String text) -> {
        out.append("Markup(");
        quote(render, text, out);
        out.append(')');
      }
      case Undefined _ -> out.append("Undefined");
      case PyList list -> items(render, list.items(), "[", "]", out);
      case PyTuple tuple -> {
        List<Object> items = tuple.items();
        items(render, items, "(", items.size() == 1 ? ",)" : ")", out);
      }
      case PyDict dict -> dict(render, dict, out);
      case PyRange range -> {
        out.append("range(").append(range.start()).append(", ").append(range.stop());
        if (range.step() != 1) {
          out.append(", ").append(range.step());
        }
        out.append(')');
      }
      case PyView view -> {
        out.append(view.kind().typeName);
        items(render, view.toList(), "([", "])", out);
      }
      case Namespace namespace -> {
        PyDict attributes = new PyDict();
        namespace.attributes.forEach(attributes::put);
        out.append("<Namespace ");
        dict(render, attributes, out);
        out.append('>');
      }
      case LoopState loop ->
          out.append("<LoopContext ")
              .append(loop.index0() + 1)
              .append('/')
              .append(loop.length())
              .append('>');
      case MacroValue macro -> {
        out.append("<Macro ");
        if (macro.name() == null) {
          out.append("anonymous");
        } else {
          quote(render, macro.name(), out);
        }
        out.append('>');
      }
      default -> throw TemplateError.unsupported("object_address");
    }
  }

  private static void items(
      Render render, List<Object> items, String open, String close, StringBuilder out) {
    render.enter();
    int start = out.length();
    out.append(open);
    for (int i = 0; i < items.size(); i++) {
      if (i > 0) {
        out.append(", ");
      }
      render.work(1);
      repr(render, items.get(i), out);
    }
    out.append(close);
    render.text(out.length() - start);
    render.leave();
  }

  private static void dict(Render render, PyDict dict, StringBuilder out) {
    render.enter();
    int start = out.length();
    out.append('{');
    boolean first = true;
    for (PyDict.Entry entry : dict.all()) {
      if (!first) {
        out.append(", ");
      }
      first = false;
      render.work(1);
      repr(render, entry.key(), out);
      out.append(": ");
      repr(render, entry.value(), out);
    }
    out.append('}');
    render.text(out.length() - start);
    render.leave();
  }

  private static void quote(Render render, String text, StringBuilder out) {
    render.text(text.length());
    char quote = text.indexOf('\'') >= 0 && text.indexOf('"') < 0 ? '"' : '\'';
    out.append(quote);
    for (int i = 0; i < text.length(); ) {
      int c = text.codePointAt(i);
      i += Character.charCount(c);
      switch (c) {
        case '\\' -> out.append("\\\\");
        case '\n' -> out.append("\\n");
        case '\r' -> out.append("\\r");
        case '\t' -> out.append("\\t");
        default -> {
          if (c == quote) {
            out.append('\\').append(quote);
          } else if ((c >= ' ' && c < 0x7f) || Unicode.isPrintable(c)) {
            out.appendCodePoint(c);
          } else {
            String form = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
            out.append(String.format(Locale.ROOT, form, c));
          }
        }
      }
    }
    out.append(quote);
  }
}
