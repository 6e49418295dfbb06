// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJson;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Python's {@code json.dumps}, which is what {@code tojson} is in transformers 5.19 ({@code
 * utils/chat_template_utils.py}): separators {@code ", "} and {@code ": "}, nothing escaped but
 * quotes, backslashes and control characters. Values that came as JSON are written without being
 * unpacked first.
 */
final class JsonWriter {

  /**
   * How to write.
   *
   * @param indent text of one level, null for everything on one line
   */
  record Style(
      boolean asciiOnly,
      @Nullable String indent,
      String itemSeparator,
      String keySeparator,
      boolean sortKeys) {
    static final Style DEFAULT = new Style(false, null, ", ", ": ", false);
  }

  private final Render render;
  private final Style style;
  private final StringBuilder out = new StringBuilder();
  private int level;

  private JsonWriter(Render render, Style style) {
    this.render = render;
    this.style = style;
  }

  static String write(Render render, Object value, Style style) {
    JsonWriter writer = new JsonWriter(render, style);
    writer.value(value);
    return writer.out.toString();
  }

  private void value(Object value) {
    switch (value) {
      case None _ -> out.append("null");
      case Boolean flag -> out.append(flag.booleanValue());
      case Long number -> out.append(number.longValue());
      case BigInteger number -> out.append(number);
      case Double number -> out.append(real(number));
      case String text -> string(text);
      case Markup(String text) -> string(text);
      case PyList list -> {
        if (list.json() != null) {
          json(list.json());
        } else {
          array(list.items());
        }
      }
      case PyTuple tuple -> array(tuple.items());
      case PyDict dict -> {
        if (dict.json() != null) {
          json(dict.json());
        } else {
          dict(dict);
        }
      }
      default -> throw TemplateError.type();
    }
  }

  private void json(Json json) {
    switch (json) {
      case Json.Null _ -> out.append("null");
      case Json.Bool(boolean value) -> out.append(value);
      case Json.Int(long value) -> out.append(value);
      case Json.BigInt(BigInteger value) -> out.append(Numbers.shrink(value));
      case Json.Real(double value) -> out.append(real(value));
      case Json.Str(String value) -> string(value);
      case Json.Arr(var items) -> {
        if (begin("[", "]", items.isEmpty())) {
          Iterator<Json> iterator = items.iterator();
          while (iterator.hasNext()) {
            json(iterator.next());
            between(iterator.hasNext());
          }
          end(']');
        }
      }
      case Json.Obj(var fields) -> {
        if (begin("{", "}", fields.isEmpty())) {
          Iterator<Map.Entry<String, Json>> iterator = entries(fields).iterator();
          while (iterator.hasNext()) {
            Map.Entry<String, Json> field = iterator.next();
            string(field.getKey());
            out.append(style.keySeparator);
            json(field.getValue());
            between(iterator.hasNext());
          }
          end('}');
        }
      }
    }
  }

  private Iterable<Map.Entry<String, Json>> entries(Map<String, Json> fields) {
    if (!style.sortKeys) {
      return fields.entrySet();
    }
    List<Map.Entry<String, Json>> sorted = new ArrayList<>(fields.entrySet());
    sorted.sort((a, b) -> Unicode.compare(a.getKey(), b.getKey()));
    return sorted;
  }

  private void array(List<Object> items) {
    if (begin("[", "]", items.isEmpty())) {
      Iterator<Object> iterator = items.iterator();
      while (iterator.hasNext()) {
        value(iterator.next());
        between(iterator.hasNext());
      }
      end(']');
    }
  }

  private void dict(PyDict dict) {
    if (!begin("{", "}", dict.size() == 0)) {
      return;
    }
    List<PyDict.Entry> entries = new ArrayList<>(dict.size());
    dict.all().forEach(entries::add);
    if (style.sortKeys) {
      entries.sort((a, b) -> Values.compare(render, a.key(), b.key()));
    }
    Iterator<PyDict.Entry> iterator = entries.iterator();
    while (iterator.hasNext()) {
      PyDict.Entry entry = iterator.next();
      string(
          switch (entry.key()) {
            case String text -> text;
            case Markup(String text) -> text;
            case None _ -> "null";
            case Boolean flag -> flag ? "true" : "false";
            case Long number -> number.toString();
            case BigInteger number -> number.toString();
            case Double number -> real(number);
            default -> throw TemplateError.type();
          });
      out.append(style.keySeparator);
      value(entry.value());
      between(iterator.hasNext());
    }
    end('}');
  }

  /** Opens a container, false when it is empty and already closed again. */
  private boolean begin(String open, String close, boolean empty) {
    out.append(open);
    if (empty) {
      out.append(close);
      return false;
    }
    render.enter();
    level++;
    newLine();
    return true;
  }

  private void between(boolean more) {
    render.work(1);
    if (more) {
      out.append(style.itemSeparator);
      newLine();
    }
  }

  private void end(char close) {
    level--;
    newLine();
    out.append(close);
    render.leave();
  }

  private void newLine() {
    if (style.indent != null) {
      render.text((long) style.indent.length() * level);
      out.append('\n').repeat(style.indent, level);
    }
  }

  private static String real(double value) {
    return PythonJson.floatText(value);
  }

  private void string(String text) {
    render.text(text.length());
    PythonJson.quote(text, style.asciiOnly, out);
  }
}
