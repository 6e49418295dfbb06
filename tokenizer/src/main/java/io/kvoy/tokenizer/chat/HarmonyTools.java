// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Json;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Tool definitions as Harmony writes them: JSON schemas turned into something like TypeScript, one
 * comment line per line of description. Equal to oss-harmony 0.0.11 ({@code src/encoding.rs}), odd
 * places included. Stateless.
 */
final class HarmonyTools {
  /** Deepest nesting of a schema; deeper ones are refused, the stack is finite. */
  private static final int MAX_DEPTH = 100;

  private HarmonyTools() {}

  /** Writes the section for normalised tools. */
  static void write(Json tools, StringBuilder out) throws ChatNormalizer.Stop {
    out.append("# Tools\n\n## functions\n\nnamespace functions {\n\n");
    for (Json item : ((Json.Arr) tools).items()) {
      Json.Obj function =
          (Json.Obj) java.util.Objects.requireNonNull(((Json.Obj) item).get("function"));
      String description = text(function, "description");
      if (description != null) {
        // Like Rust's lines(): a last line feed makes no line.
        description.lines().forEach(line -> out.append("// ").append(line).append('\n'));
      }
      out.append("type ").append(text(function, "name")).append(" = (");
      if (function.get("parameters") instanceof Json.Obj parameters) {
        out.append("_: ").append(type(parameters, "", 0));
      }
      out.append(") => any;\n\n");
    }
    out.append("} // namespace functions");
  }

  private static @Nullable String text(Json.Obj object, String key) {
    return object.get(key) instanceof Json.Str(String text) ? text : null;
  }

  private static boolean isEnum(Json.Obj schema) {
    return schema.get("enum") instanceof Json.Arr(var values) && !values.isEmpty();
  }

  private static String type(Json schema, String indent, int depth) throws ChatNormalizer.Stop {
    if (depth > MAX_DEPTH) {
      throw ChatNormalizer.Stop.unsupported("schema_depth");
    }
    if (!(schema instanceof Json.Obj object)) {
      return "any";
    }
    if (object.get("oneOf") instanceof Json.Arr(var variants)) {
      StringBuilder out = new StringBuilder();
      for (Json variant : variants) {
        out.append('\n').append(indent).append(" | ");
        out.append(nullable(variant, type(variant, indent + "   ", depth + 1)));
        List<String> comments = new ArrayList<>();
        if (variant instanceof Json.Obj inner) {
          addIfPresent(text(inner, "description"), comments);
          Json fallback = inner.get("default");
          if (fallback instanceof Json.Str(String text) && isEnum(inner)) {
            comments.add("default: " + quoted(text));
          } else {
            addIfPresent(defaultOf(inner), comments);
          }
        }
        addComments(comments, out);
      }
      return out.toString();
    }
    if (object.get("type") instanceof Json.Arr(var types)) {
      List<String> names = new ArrayList<>();
      for (Json item : types) {
        if (item instanceof Json.Str(String name)) {
          names.add(name.equals("integer") ? "number" : name);
        }
      }
      if (!names.isEmpty()) {
        return String.join(" | ", names);
      }
    }
    String name = text(object, "type");
    return switch (name == null ? "" : name) {
      case "object" -> objectType(object, indent, depth);
      case "string" -> stringType(object);
      case "number", "integer" -> "number";
      case "boolean" -> "boolean";
      case "array" -> {
        Json items = object.get("items");
        yield items == null ? "Array<any>" : type(items, indent, depth + 1) + "[]";
      }
      default -> "any";
    };
  }

  private static String stringType(Json.Obj schema) {
    List<String> values = new ArrayList<>();
    if (schema.get("enum") instanceof Json.Arr(var items)) {
      for (Json item : items) {
        if (item instanceof Json.Str(String value)) {
          values.add('"' + value + '"');
        }
      }
    }
    return values.isEmpty() ? "string" : String.join(" | ", values);
  }

  private static String nullable(Json schema, String type) {
    return schema instanceof Json.Obj object
            && object.get("nullable") instanceof Json.Bool(boolean flag)
            && flag
            && !type.contains("null")
        ? type + " | null"
        : type;
  }

  /** {@code default: …}, null without one. Texts stand in quotes, those of enums without. */
  private static @Nullable String defaultOf(Json.Obj schema) {
    Json value = schema.get("default");
    if (value == null) {
      return null;
    }
    if (value instanceof Json.Str(String text)) {
      return isEnum(schema) ? "default: " + text : "default: \"" + text + '"';
    }
    StringBuilder out = new StringBuilder("default: ");
    writeJson(value, out);
    return out.toString();
  }

  private static void addIfPresent(@Nullable String text, List<String> comments) {
    if (text != null) {
      comments.add(text);
    }
  }

  private static void addComments(List<String> comments, StringBuilder out) {
    if (!comments.isEmpty()) {
      out.append(" // ").append(String.join(" ", comments));
    }
  }

  private static String objectType(Json.Obj schema, String indent, int depth)
      throws ChatNormalizer.Stop {
    StringBuilder out = new StringBuilder();
    comment(text(schema, "description"), indent, out);
    out.append("{\n");
    if (schema.get("properties") instanceof Json.Obj(var properties)) {
      Set<String> required = new HashSet<>();
      if (schema.get("required") instanceof Json.Arr(var names)) {
        for (Json name : names) {
          if (name instanceof Json.Str(String text)) {
            required.add(text);
          }
        }
      }
      for (Map.Entry<String, Json> property : properties.entrySet()) {
        String name = property.getKey() + (required.contains(property.getKey()) ? "" : "?");
        property(name, property.getValue(), indent, depth, out);
      }
    }
    return out.append(indent).append('}').toString();
  }

  private static void comment(@Nullable String text, String indent, StringBuilder out) {
    if (text != null) {
      out.append(indent).append("// ").append(text).append('\n');
    }
  }

  private static void property(String name, Json value, String indent, int depth, StringBuilder out)
      throws ChatNormalizer.Stop {
    Json.Obj schema = value instanceof Json.Obj object ? object : Json.Obj.of(Map.of());
    String title = text(schema, "title");
    if (title != null) {
      comment(title, indent, out);
      out.append(indent).append("//\n");
    }
    Json oneOf = schema.get("oneOf");
    if (oneOf == null) {
      comment(text(schema, "description"), indent, out);
    }
    if (schema.get("examples") instanceof Json.Arr(var examples) && !examples.isEmpty()) {
      out.append(indent).append("// Examples:\n");
      for (Json example : examples) {
        if (example instanceof Json.Str(String text)) {
          out.append(indent).append("// - \"").append(text).append("\"\n");
        }
      }
    }
    if (oneOf instanceof Json.Arr(var variants)) {
      variants(name, schema, variants, indent, depth, out);
      return;
    }
    out.append(indent).append(name).append(": ");
    out.append(nullable(schema, type(value, indent + "    ", depth + 1))).append(',');
    String fallback = oneOf == null ? defaultOf(schema) : null;
    if (fallback != null) {
      out.append(" // ").append(fallback);
    }
    out.append('\n');
  }

  private static void variants(
      String name,
      Json.Obj schema,
      List<Json> variants,
      String indent,
      int depth,
      StringBuilder out)
      throws ChatNormalizer.Stop {
    String description = text(schema, "description");
    boolean above =
        description != null
            && !(!variants.isEmpty()
                && variants.getFirst() instanceof Json.Obj first
                && description.equals(text(first, "description")));
    if (above) {
      comment(description, indent, out);
    }
    comment(defaultOf(schema), indent, out);
    out.append(indent).append(name).append(":\n");
    for (int i = 0; i < variants.size(); i++) {
      Json variant = variants.get(i);
      out.append(indent).append(" | ");
      out.append(nullable(variant, type(variant, indent + "   ", depth + 1)));
      List<String> comments = new ArrayList<>();
      if (variant instanceof Json.Obj object) {
        String own = text(object, "description");
        if (!(i == 0 && above) && own != null && !own.equals(description)) {
          comments.add(own);
        }
        addIfPresent(defaultOf(object), comments);
      }
      addComments(comments, out);
      out.append('\n');
    }
    out.append(indent).append(",\n");
  }

  // JSON as serde_json prints it: no spaces, floats in Rust's shortest form

  private static void writeJson(Json value, StringBuilder out) {
    switch (value) {
      case Json.Null _ -> out.append("null");
      case Json.Bool(boolean flag) -> out.append(flag);
      case Json.Int(long number) -> out.append(number);
      case Json.BigInt(BigInteger number) -> {
        boolean unsigned = number.signum() > 0 && number.bitLength() <= 64;
        out.append(unsigned ? number.toString() : real(number.doubleValue()));
      }
      case Json.Real(double number) -> out.append(real(number));
      case Json.Str(String text) -> out.append(quoted(text));
      case Json.Arr(var items) -> {
        out.append('[');
        Iterator<Json> iterator = items.iterator();
        while (iterator.hasNext()) {
          writeJson(iterator.next(), out);
          out.append(iterator.hasNext() ? "," : "");
        }
        out.append(']');
      }
      case Json.Obj(var fields) -> {
        out.append('{');
        Iterator<Map.Entry<String, Json>> iterator = fields.entrySet().iterator();
        while (iterator.hasNext()) {
          Map.Entry<String, Json> field = iterator.next();
          out.append(quoted(field.getKey())).append(':');
          writeJson(field.getValue(), out);
          out.append(iterator.hasNext() ? "," : "");
        }
        out.append('}');
      }
    }
  }

  private static String real(double value) {
    if (value == 0) {
      return 1 / value < 0 ? "-0.0" : "0.0";
    }
    BigDecimal decimal = new BigDecimal(Double.toString(Math.abs(value))).stripTrailingZeros();
    String digits = decimal.unscaledValue().toString();
    int point = digits.length() - decimal.scale();
    String sign = value < 0 ? "-" : "";
    if (point > 16 || point <= -5) {
      String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
      return sign + digits.charAt(0) + fraction + (point > 0 ? "e+" : "e") + (point - 1);
    }
    if (point <= 0) {
      return sign + "0." + "0".repeat(-point) + digits;
    }
    if (digits.length() <= point) {
      return sign + digits + "0".repeat(point - digits.length()) + ".0";
    }
    return sign + digits.substring(0, point) + "." + digits.substring(point);
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder(text.length() + 2).append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        case '\b' -> out.append("\\b");
        case '\f' -> out.append("\\f");
        case '\n' -> out.append("\\n");
        case '\r' -> out.append("\\r");
        case '\t' -> out.append("\\t");
        default -> {
          if (c < ' ') {
            out.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
          } else {
            out.append(c);
          }
        }
      }
    }
    return out.append('"').toString();
  }
}
