// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** The filters of Jinja2 3.1.6, with {@code tojson} as transformers 5.19 has it. */
final class Filters {

  /** A filter at work on a value. */
  @FunctionalInterface
  interface Filter {
    Object apply(Render render, Object value, Args args);
  }

  private static final Map<String, Filter> FILTERS = new HashMap<>();

  /** Filters of Jinja2 that are not here: random ones, and those for HTML pages. */
  private static final Set<String> ABSENT =
      Set.of("filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr");

  static {
    FILTERS.put("abs", (_, v, a) -> abs(v, a));
    FILTERS.put("attr", (_, v, a) -> attr(v, a));
    FILTERS.put("batch", Filters::batch);
    FILTERS.put("capitalize", (r, v, a) -> text(r, v, a, StrMethods::capitalize));
    FILTERS.put("center", Filters::center);
    FILTERS.put("count", (_, v, a) -> length(v, a));
    FILTERS.put("d", (_, v, a) -> defaultValue(v, a));
    FILTERS.put("default", (_, v, a) -> defaultValue(v, a));
    FILTERS.put("dictsort", Filters::dictSort);
    FILTERS.put("e", Filters::escape);
    FILTERS.put("escape", Filters::escape);
    FILTERS.put("first", (_, v, a) -> first(v, a));
    FILTERS.put("float", (_, v, a) -> toFloat(v, a));
    FILTERS.put("forceescape", (r, v, a) -> new Markup(Markup.escape(plain(r, v, a))));
    FILTERS.put("format", (r, v, a) -> PercentFormat.filter(r, Repr.str(r, v), a));
    FILTERS.put("groupby", Filters::groupBy);
    FILTERS.put("indent", Filters::indent);
    FILTERS.put("int", (r, v, a) -> toInt(v, a));
    FILTERS.put("items", (_, v, a) -> items(v, a));
    FILTERS.put("join", Filters::join);
    FILTERS.put("last", (r, v, a) -> last(r, v, a));
    FILTERS.put("length", (_, v, a) -> length(v, a));
    FILTERS.put(
        "list",
        (r, v, a) -> {
          a.positional(0, 0);
          return new PyList(Values.toList(r, v));
        });
    FILTERS.put("lower", (r, v, a) -> text(r, v, a, s -> s.toLowerCase(Locale.ROOT)));
    FILTERS.put("map", Filters::map);
    FILTERS.put("max", (r, v, a) -> extreme(r, v, a, true));
    FILTERS.put("min", (r, v, a) -> extreme(r, v, a, false));
    FILTERS.put("reject", (r, v, a) -> select(r, v, a, false, false));
    FILTERS.put("rejectattr", (r, v, a) -> select(r, v, a, true, false));
    FILTERS.put("replace", Filters::replace);
    FILTERS.put("reverse", Filters::reverse);
    FILTERS.put("round", (_, v, a) -> round(v, a));
    FILTERS.put("safe", (r, v, a) -> new Markup(plain(r, v, a)));
    FILTERS.put("select", (r, v, a) -> select(r, v, a, false, true));
    FILTERS.put("selectattr", (r, v, a) -> select(r, v, a, true, true));
    FILTERS.put("slice", Filters::slice);
    FILTERS.put("sort", Filters::sort);
    FILTERS.put(
        "string",
        (r, v, a) -> {
          a.positional(0, 0);
          return v instanceof Markup ? v : Repr.str(r, v);
        });
    FILTERS.put("sum", Filters::sum);
    FILTERS.put("title", (r, v, a) -> text(r, v, a, Filters::title));
    FILTERS.put("tojson", Filters::toJson);
    FILTERS.put("trim", Filters::trim);
    FILTERS.put("truncate", Filters::truncate);
    FILTERS.put("unique", Filters::unique);
    FILTERS.put("upper", (r, v, a) -> text(r, v, a, s -> s.toUpperCase(Locale.ROOT)));
    FILTERS.put("urlencode", Filters::urlEncode);
    FILTERS.put("wordcount", (r, v, a) -> wordCount(plain(r, v, a)));
  }

  private Filters() {}

  static @Nullable Filter find(String name) {
    return FILTERS.get(name);
  }

  /** Whether Jinja2 has a filter of this name, here or not. */
  static boolean exists(String name) {
    return FILTERS.containsKey(name) || ABSENT.contains(name);
  }

  /** A filter chosen at run time, by {@code map}. */
  private static Filter named(Object name) {
    String text = Values.asText(name);
    Filter filter = text == null ? null : FILTERS.get(text);
    if (filter == null) {
      throw text != null && ABSENT.contains(text)
          ? TemplateError.unsupported("filter_" + text)
          : TemplateError.runtime();
    }
    return filter;
  }

  private static String plain(Render render, Object value, Args args) {
    args.positional(0, 0);
    return Repr.str(render, value);
  }

  /** A filter from text to text; what is no text is printed first, what is safe stays so. */
  private static Object text(
      Render render, Object value, Args args, Function<String, String> operation) {
    String result = operation.apply(plain(render, value, args));
    render.text(result.length());
    return value instanceof Markup ? new Markup(result) : result;
  }

  private static boolean flag(@Nullable Object value) {
    return value != null && Values.truth(value);
  }

  private static int number(@Nullable Object value, int fallback) {
    return value == null ? fallback : Numbers.index(value);
  }

  // Numbers

  private static Object abs(Object value, Args args) {
    args.positional(0, 0);
    return switch (value) {
      case Double number -> Math.abs(number);
      case Long _, Boolean _, BigInteger _ -> Numbers.shrink(Numbers.big(value).abs());
      default -> throw TemplateError.type();
    };
  }

  private static Object round(Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "precision", "method");
    int precision = number(bound[0], 0);
    String method = bound[1] == null ? "common" : Values.asText(bound[1]);
    if (method == null || !Set.of("common", "ceil", "floor").contains(method)) {
      throw TemplateError.runtime();
    }
    if (!Numbers.isNumber(value)) {
      throw value instanceof Undefined undefined && !method.equals("common")
          ? undefined.error()
          : TemplateError.type();
    }
    if (method.equals("common")) {
      return value instanceof Double real
          ? (Object) Numbers.round(real, precision)
          : roundInt(Numbers.big(value), precision);
    }
    if (Math.abs(precision) > 300) {
      throw TemplateError.unsupported("limit_precision");
    }
    Object factor = Numbers.power(10L, (long) precision);
    Object scaled = factor == null ? null : Numbers.multiply(value, factor);
    if (factor == null || scaled == null) {
      throw TemplateError.type();
    }
    Object whole = scaled;
    if (scaled instanceof Double real) {
      whole = Numbers.truncate(method.equals("ceil") ? Math.ceil(real) : Math.floor(real));
    }
    Object result = Numbers.divide(whole, factor);
    if (result == null) {
      throw TemplateError.type();
    }
    return result;
  }

  private static Object roundInt(BigInteger value, int precision) {
    if (precision >= 0) {
      return Numbers.shrink(value);
    }
    if (precision < -5000) {
      return 0L;
    }
    return Numbers.shrink(
        new java.math.BigDecimal(value)
            .setScale(precision, java.math.RoundingMode.HALF_EVEN)
            .toBigInteger());
  }

  private static Object toInt(Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "default", "base");
    Object fallback = bound[0] == null ? (Object) 0L : bound[0];
    int base = number(bound[1], 10);
    String text = Values.asText(value);
    if (text != null) {
      BigInteger parsed = parseInt(text, base);
      if (parsed != null) {
        return Numbers.shrink(parsed);
      }
      Double real = parseFloat(text);
      return real == null || real.isNaN() || real.isInfinite() ? fallback : Numbers.truncate(real);
    }
    return switch (value) {
      case Long _, Boolean _, BigInteger _ -> Numbers.plus(value);
      case Double real -> {
        if (real.isNaN()) {
          yield fallback;
        }
        if (real.isInfinite()) {
          throw TemplateError.overflow();
        }
        yield Numbers.truncate(real);
      }
      case Undefined undefined -> throw undefined.error();
      default -> fallback;
    };
  }

  private static @Nullable BigInteger parseInt(String text, int base) {
    String digits = Unicode.strip(text);
    boolean negative = digits.startsWith("-");
    if (negative || digits.startsWith("+")) {
      digits = digits.substring(1);
    }
    int radix = base;
    String prefix = digits.length() > 1 ? digits.substring(0, 2).toLowerCase(Locale.ROOT) : "";
    int prefixRadix =
        switch (prefix) {
          case "0x" -> 16;
          case "0o" -> 8;
          case "0b" -> 2;
          default -> 0;
        };
    if (prefixRadix != 0 && (base == 0 || base == prefixRadix)) {
      radix = prefixRadix;
      digits = digits.substring(2);
      if (digits.startsWith("_")) {
        digits = digits.substring(1);
      }
    } else if (base == 0) {
      radix = 10;
      if (digits.length() > 1 && digits.startsWith("0") && !digits.replace("_", "").matches("0+")) {
        return null;
      }
    }
    if (radix < 2 || radix > 36) {
      return null;
    }
    String joined = joinDigits(digits, radix);
    if (joined == null) {
      return null;
    }
    BigInteger value = new BigInteger(joined, radix);
    return negative ? value.negate() : value;
  }

  /** The digits without single underscores between them, null when something else is in between. */
  private static @Nullable String joinDigits(String text, int radix) {
    if (text.isEmpty() || text.length() > 5000) {
      return null;
    }
    StringBuilder out = new StringBuilder(text.length());
    boolean afterDigit = false;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      int digit = Character.digit(c, radix);
      if (digit >= 0) {
        out.append(Character.forDigit(digit, radix));
        afterDigit = true;
      } else if (c == '_' && afterDigit) {
        afterDigit = false;
      } else {
        return null;
      }
    }
    return afterDigit ? out.toString() : null;
  }

  private static @Nullable Double parseFloat(String text) {
    String number = Unicode.strip(text).toLowerCase(Locale.ROOT);
    String unsigned =
        number.startsWith("-") || number.startsWith("+") ? number.substring(1) : number;
    boolean negative = number.startsWith("-");
    switch (unsigned) {
      case "inf", "infinity" -> {
        return negative ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY;
      }
      case "nan" -> {
        return Double.NaN;
      }
      default -> {}
    }
    StringBuilder clean = new StringBuilder(number.length());
    for (int i = 0; i < unsigned.length(); i++) {
      char c = unsigned.charAt(i);
      boolean digit = c >= '0' && c <= '9';
      if (c == '_') {
        boolean between =
            i > 0
                && i + 1 < unsigned.length()
                && Character.isDigit(unsigned.charAt(i - 1))
                && Character.isDigit(unsigned.charAt(i + 1));
        if (!between) {
          return null;
        }
      } else if (digit || c == '.' || c == 'e' || c == '+' || c == '-') {
        clean.append(c);
      } else {
        return null;
      }
    }
    try {
      double value = Double.parseDouble(clean.toString());
      boolean signTwice = !clean.isEmpty() && "+-".indexOf(clean.charAt(0)) >= 0;
      return signTwice ? null : (Double) (negative ? -value : value);
    } catch (NumberFormatException e) {
      return null;
    }
  }

  private static Object toFloat(Object value, Args args) {
    Object given = args.bind(0, "default")[0];
    Object fallback = given == null ? (Object) 0.0 : given;
    String text = Values.asText(value);
    if (text != null) {
      Double parsed = parseFloat(text);
      return parsed == null ? fallback : parsed;
    }
    if (value instanceof Undefined undefined) {
      throw undefined.error();
    }
    return Numbers.isNumber(value) ? (Object) Numbers.real(value) : fallback;
  }

  // Text

  private static Object escape(Render render, Object value, Args args) {
    args.positional(0, 0);
    return value instanceof Markup ? value : new Markup(Markup.escape(Repr.str(render, value)));
  }

  private static Object center(Render render, Object value, Args args) {
    int width = number(args.bind(0, "width")[0], 80);
    String text = Repr.str(render, value);
    String result = StrMethods.pad(render, text, width, " ", StrMethods.Alignment.CENTER);
    return value instanceof Markup ? new Markup(result) : result;
  }

  private static Object trim(Render render, Object value, Args args) {
    Object characters = args.bind(0, "chars")[0];
    String text = value instanceof String plain ? plain : Repr.str(render, value);
    String result =
        characters == null || characters == None.NONE
            ? Unicode.strip(text)
            : StrMethods.strip(text, StrMethods.text(characters), true, true);
    render.text(result.length());
    return value instanceof Markup ? new Markup(result) : result;
  }

  private static Object replace(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(2, "old", "new", "count");
    int count = bound[2] == null || bound[2] == None.NONE ? -1 : Numbers.index(bound[2]);
    return StrMethods.replace(
        render,
        Repr.str(render, value),
        Repr.str(render, java.util.Objects.requireNonNull(bound[0])),
        Repr.str(render, java.util.Objects.requireNonNull(bound[1])),
        count);
  }

  private static String title(String text) {
    StringBuilder out = new StringBuilder(text.length());
    boolean wordStart = true;
    int from = 0;
    for (int i = 0; i <= text.length(); i++) {
      boolean separator =
          i < text.length()
              && (Unicode.isSpace(text.charAt(i)) || "-({[<".indexOf(text.charAt(i)) >= 0);
      if (i == text.length() || separator != !wordStart) {
        out.append(titleWord(text.substring(from, i)));
        from = i;
        wordStart = !separator;
      }
    }
    return out.toString();
  }

  private static String titleWord(String word) {
    if (word.isEmpty()) {
      return word;
    }
    int first = word.offsetByCodePoints(0, 1);
    return word.substring(0, first).toUpperCase(Locale.ROOT)
        + word.substring(first).toLowerCase(Locale.ROOT);
  }

  private static Object indent(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "width", "first", "blank");
    String text = Values.asText(value);
    if (text == null) {
      throw value instanceof Undefined undefined ? undefined.error() : TemplateError.type();
    }
    String width = bound[0] == null ? null : Values.asText(bound[0]);
    int spaces = Math.max(width == null ? number(bound[0], 4) : 0, 0);
    render.checkText(spaces);
    String indention = width != null ? width : " ".repeat(spaces);
    boolean blank = flag(bound[2]);
    // One more line feed, so that a text ending with one keeps an empty last line.
    List<String> lines = StrMethods.lines(render, text + "\n", false);
    StringBuilder out = new StringBuilder(text.length() + lines.size() * indention.length());
    if (flag(bound[1])) {
      out.append(indention);
    }
    for (int i = 0; i < lines.size(); i++) {
      String line = lines.get(i);
      if (i > 0) {
        out.append('\n');
        if (blank || !line.isEmpty()) {
          out.append(indention);
        }
      }
      out.append(line);
      render.checkText(out.length());
    }
    render.text(out.length());
    return value instanceof Markup ? new Markup(out.toString()) : out.toString();
  }

  private static Object truncate(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "length", "killwords", "end", "leeway");
    int length = number(bound[0], 255);
    String end = bound[2] == null ? "..." : StrMethods.text(bound[2]);
    int leeway = bound[3] == null || bound[3] == None.NONE ? 5 : Numbers.index(bound[3]);
    int endLength = Unicode.length(end);
    if (length < endLength || leeway < 0) {
      throw TemplateError.value();
    }
    if (Values.length(value) <= (long) length + leeway) {
      return value;
    }
    String text = StrMethods.text(value);
    String cut = text.substring(0, Unicode.offset(text, length - endLength));
    if (!flag(bound[1])) {
      int space = cut.lastIndexOf(' ');
      cut = space < 0 ? cut : cut.substring(0, space);
    }
    render.text(cut.length());
    return cut + end;
  }

  private static Object wordCount(String text) {
    long words = 0;
    boolean inWord = false;
    for (int i = 0; i < text.length(); ) {
      int c = text.codePointAt(i);
      i += Character.charCount(c);
      boolean isWord = c == '_' || Character.isLetterOrDigit(c) || StrMethods.isDigit(c);
      if (isWord && !inWord) {
        words++;
      }
      inWord = isWord;
    }
    return words;
  }

  private static Object urlEncode(Render render, Object value, Args args) {
    args.positional(0, 0);
    if (Values.asText(value) != null || !Values.isIterable(value)) {
      return quote(Repr.str(render, value), false);
    }
    StringBuilder out = new StringBuilder();
    Object pairs = value instanceof PyDict dict ? new PyView(PyView.Kind.ITEMS, dict) : value;
    Iterator<Object> items = Values.iterate(pairs);
    while (items.hasNext()) {
      List<Object> pair = Values.toList(render, items.next());
      if (pair.size() != 2) {
        throw TemplateError.value();
      }
      if (!out.isEmpty()) {
        out.append('&');
      }
      out.append(quote(Repr.str(render, pair.get(0)), true)).append('=');
      out.append(quote(Repr.str(render, pair.get(1)), true));
      render.checkText(out.length());
    }
    render.text(out.length());
    return out.toString();
  }

  private static String quote(String text, boolean forQuery) {
    StringBuilder out = new StringBuilder(text.length() + 16);
    for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
      char c = (char) (b & 0xff);
      boolean safe =
          (c >= 'a' && c <= 'z')
              || (c >= 'A' && c <= 'Z')
              || (c >= '0' && c <= '9')
              || "_.-~".indexOf(c) >= 0
              || (c == '/' && !forQuery);
      if (safe) {
        out.append(c);
      } else if (c == ' ' && forQuery) {
        out.append('+');
      } else {
        out.append(String.format(Locale.ROOT, "%%%02X", (int) c));
      }
    }
    return out.toString();
  }

  private static Object toJson(Render render, Object value, Args args) {
    if (args.isEmpty()) {
      return JsonWriter.write(render, value, JsonWriter.Style.DEFAULT);
    }
    @Nullable Object[] bound = args.bind(0, "ensure_ascii", "indent", "separators", "sort_keys");
    Object given = bound[1];
    String indent = null;
    if (given != null && given != None.NONE) {
      String text = Values.asText(given);
      int spaces = text == null ? Math.max(Numbers.index(given), 0) : 0;
      render.checkText(spaces);
      indent = text == null ? " ".repeat(spaces) : text;
    }
    String itemSeparator = indent == null ? ", " : ",";
    String keySeparator = ": ";
    if (bound[2] != null && bound[2] != None.NONE) {
      List<Object> pair = Values.toList(render, bound[2]);
      if (pair.size() != 2) {
        throw TemplateError.value();
      }
      itemSeparator = StrMethods.text(pair.get(0));
      keySeparator = StrMethods.text(pair.get(1));
    }
    return JsonWriter.write(
        render,
        value,
        new JsonWriter.Style(flag(bound[0]), indent, itemSeparator, keySeparator, flag(bound[3])));
  }

  // Values and collections

  private static Object length(Object value, Args args) {
    args.positional(0, 0);
    return Values.length(value);
  }

  private static Object defaultValue(Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "default_value", "boolean");
    Object fallback = bound[0] == null ? "" : bound[0];
    return value instanceof Undefined || (flag(bound[1]) && !Values.truth(value))
        ? fallback
        : value;
  }

  private static Object attr(Object value, Args args) {
    Object name = args.bind(1, "name")[0];
    Object found = Attributes.find(value, StrMethods.text(java.util.Objects.requireNonNull(name)));
    return found == null ? Undefined.MISSING : found;
  }

  private static Object items(Object value, Args args) {
    args.positional(0, 0);
    return switch (value) {
      case Undefined _ -> new PyIterator(java.util.Collections.emptyIterator());
      case PyDict dict -> new PyIterator(new PyView(PyView.Kind.ITEMS, dict).toList().iterator());
      default -> throw TemplateError.type();
    };
  }

  private static Object first(Object value, Args args) {
    args.positional(0, 0);
    Iterator<Object> items = Values.iterate(value);
    return items.hasNext() ? items.next() : Undefined.MISSING;
  }

  private static Object last(Render render, Object value, Args args) {
    args.positional(0, 0);
    if (value instanceof PyIterator) {
      throw TemplateError.type();
    }
    List<Object> items = Values.toList(render, value);
    return items.isEmpty() ? Undefined.MISSING : items.getLast();
  }

  private static Object join(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "d", "attribute");
    String separator = bound[0] == null ? "" : Repr.str(render, bound[0]);
    Function<Object, Object> getter =
        bound[1] == null || bound[1] == None.NONE ? item -> item : new Getter(bound[1], null)::get;
    StringBuilder out = new StringBuilder();
    Iterator<Object> items = Values.iterate(value);
    boolean first = true;
    while (items.hasNext()) {
      if (!first) {
        out.append(separator);
      }
      first = false;
      String item = Repr.str(render, getter.apply(items.next()));
      render.text((long) item.length() + separator.length());
      out.append(item);
      render.checkText(out.length());
    }
    return out.toString();
  }

  private static Object reverse(Render render, Object value, Args args) {
    args.positional(0, 0);
    String text = Values.asText(value);
    if (text != null) {
      Object reversed = Values.slice(render, text, None.NONE, None.NONE, -1L);
      return value instanceof Markup ? new Markup((String) reversed) : reversed;
    }
    if (!Values.isIterable(value)) {
      throw TemplateError.runtime();
    }
    List<Object> reversed = Values.toList(render, value).reversed();
    return value instanceof PyIterator ? new PyList(reversed) : new PyIterator(reversed.iterator());
  }

  private static Object batch(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(1, "linecount", "fill_with");
    int size = number(bound[0], 0);
    List<Object> batches = new ArrayList<>();
    List<Object> current = new ArrayList<>();
    for (Object item : Values.toList(render, value)) {
      if (current.size() == size) {
        batches.add(new PyList(current));
        current = new ArrayList<>();
      }
      current.add(item);
    }
    if (!current.isEmpty()) {
      Object fill = bound[1];
      if (fill != null && fill != None.NONE) {
        render.items(size);
        while (current.size() < size) {
          current.add(fill);
        }
      }
      batches.add(new PyList(current));
    }
    return new PyIterator(batches.iterator());
  }

  private static Object slice(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(1, "slices", "fill_with");
    int slices = number(bound[0], 0);
    List<Object> items = Values.toList(render, value);
    if (slices == 0) {
      throw TemplateError.zeroDivision();
    }
    render.items(slices);
    List<Object> result = new ArrayList<>();
    int each = Math.floorDiv(items.size(), slices);
    int extra = Math.floorMod(items.size(), slices);
    int offset = 0;
    for (int i = 0; i < slices; i++) {
      int from = offset + i * each;
      if (i < extra) {
        offset++;
      }
      List<Object> part = new ArrayList<>(items.subList(from, offset + (i + 1) * each));
      if (bound[1] != null && bound[1] != None.NONE && i >= extra) {
        part.add(bound[1]);
      }
      result.add(new PyList(part));
    }
    return new PyIterator(result.iterator());
  }

  /** Follows a dotted path of attributes; parts that are numbers are indexes. */
  private static final class Getter {
    private final List<Object> parts = new ArrayList<>();
    private final @Nullable Object fallback;

    Getter(Object path, @Nullable Object fallback) {
      this.fallback = fallback == None.NONE ? null : fallback;
      String text = Values.asText(path);
      if (text == null) {
        if (path != None.NONE) {
          parts.add(path);
        }
        return;
      }
      for (String part : text.split("\\.", -1)) {
        boolean number = !part.isEmpty() && part.codePoints().allMatch(StrMethods::isDigit);
        parts.add(number && part.length() < 10 ? (Object) Long.valueOf(part) : part);
      }
    }

    Object get(Object item) {
      Object value = item;
      for (Object part : parts) {
        value = Values.item(value, part);
        if (fallback != null && value instanceof Undefined) {
          value = fallback;
        }
      }
      return value;
    }
  }

  private static Object ignoreCase(Object value) {
    String text = Values.asText(value);
    return text == null ? value : text.toLowerCase(Locale.ROOT);
  }

  private static Object map(Render render, Object value, Args args) {
    if (!Values.truth(value)) {
      return new PyIterator(java.util.Collections.emptyIterator());
    }
    Function<Object, Object> operation;
    if (args.count() == 0 && args.keywords().containsKey("attribute")) {
      Map<String, Object> keywords = args.keywords();
      if (keywords.size() > (keywords.containsKey("default") ? 2 : 1)) {
        throw TemplateError.runtime();
      }
      operation =
          new Getter(
                  java.util.Objects.requireNonNull(keywords.get("attribute")),
                  keywords.get("default"))
              ::get;
    } else {
      if (args.count() == 0) {
        throw TemplateError.runtime();
      }
      Filter filter = named(args.positional().getFirst());
      Args rest = args.tail();
      operation = item -> filter.apply(render, item, rest);
    }
    Iterator<Object> items = Values.iterate(value);
    return new PyIterator(
        new Iterator<>() {
          @Override
          public boolean hasNext() {
            return items.hasNext();
          }

          @Override
          public Object next() {
            render.work(1);
            return operation.apply(items.next());
          }
        });
  }

  private static Object select(
      Render render, Object value, Args args, boolean byAttribute, boolean wanted) {
    if (!Values.truth(value)) {
      return new PyIterator(java.util.Collections.emptyIterator());
    }
    Function<Object, Object> getter = item -> item;
    Args rest = args;
    if (byAttribute) {
      if (args.count() == 0) {
        throw TemplateError.runtime();
      }
      getter = new Getter(args.positional().getFirst(), null)::get;
      rest = args.tail();
    }
    Predicate<Object> test;
    if (rest.count() == 0) {
      test = Values::truth;
    } else {
      Tests.Test named = Tests.named(rest.positional().getFirst());
      Args testArgs = rest.tail();
      test = item -> named.apply(render, item, testArgs);
    }
    return new PyIterator(new Selection(render, Values.iterate(value), getter, test, wanted));
  }

  /** The items that pass a test, found one by one as they are asked for. */
  private static final class Selection implements Iterator<Object> {
    private final Render render;
    private final Iterator<Object> items;
    private final Function<Object, Object> getter;
    private final Predicate<Object> test;
    private final boolean wanted;
    private @Nullable Object next;

    Selection(
        Render render,
        Iterator<Object> items,
        Function<Object, Object> getter,
        Predicate<Object> test,
        boolean wanted) {
      this.render = render;
      this.items = items;
      this.getter = getter;
      this.test = test;
      this.wanted = wanted;
    }

    @Override
    public boolean hasNext() {
      while (next == null && items.hasNext()) {
        render.work(1);
        Object item = items.next();
        if (test.test(getter.apply(item)) == wanted) {
          next = item;
        }
      }
      return next != null;
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      Object item = java.util.Objects.requireNonNull(next);
      next = null;
      return item;
    }
  }

  /** An item with what it is ordered by. */
  private record Keyed(Object key, Object item) {}

  private static List<Object> sorted(
      Render render, List<Object> items, Function<Object, Object> key, boolean reverse) {
    List<Keyed> keyed = new ArrayList<>(items.size());
    for (Object item : items) {
      keyed.add(new Keyed(key.apply(item), item));
    }
    Comparator<Keyed> order =
        (a, b) -> {
          render.work(1);
          return sortOrder(render, a.key, b.key);
        };
    keyed.sort(reverse ? order.reversed() : order);
    List<Object> result = new ArrayList<>(items.size());
    for (Keyed entry : keyed) {
      result.add(entry.item);
    }
    return result;
  }

  private static int sortOrder(Render render, Object a, Object b) {
    int order = Values.compare(render, a, b);
    if (order == Integer.MIN_VALUE) {
      throw TemplateError.unsupported("nan_order");
    }
    return order;
  }

  private static Object dictSort(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "case_sensitive", "by", "reverse");
    if (!(value instanceof PyDict dict)) {
      throw value instanceof Undefined undefined ? undefined.error() : TemplateError.type();
    }
    boolean caseSensitive = flag(bound[0]);
    String by = bound[1] == null ? "key" : Values.asText(bound[1]);
    if (by == null || !(by.equals("key") || by.equals("value"))) {
      throw TemplateError.runtime();
    }
    int position = by.equals("key") ? 0 : 1;
    return new PyList(
        sorted(
            render,
            new PyView(PyView.Kind.ITEMS, dict).toList(),
            pair -> {
              Object part = ((PyTuple) pair).items().get(position);
              return caseSensitive ? part : ignoreCase(part);
            },
            flag(bound[2])));
  }

  private static Object sort(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "reverse", "case_sensitive", "attribute");
    boolean caseSensitive = flag(bound[1]);
    List<Getter> getters = new ArrayList<>();
    String paths = bound[2] == null ? null : Values.asText(bound[2]);
    if (paths == null) {
      getters.add(new Getter(bound[2] == null ? None.NONE : bound[2], null));
    } else {
      for (String path : paths.split(",", -1)) {
        getters.add(new Getter(path, null));
      }
    }
    return new PyList(
        sorted(
            render,
            Values.toList(render, value),
            item -> {
              List<Object> key = new ArrayList<>(getters.size());
              for (Getter getter : getters) {
                Object part = getter.get(item);
                key.add(caseSensitive ? part : ignoreCase(part));
              }
              return new PyList(key);
            },
            flag(bound[0])));
  }

  private static Object unique(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "case_sensitive", "attribute");
    boolean caseSensitive = flag(bound[0]);
    Getter getter = new Getter(bound[1] == null ? None.NONE : bound[1], null);
    Set<Object> seen = new HashSet<>();
    List<Object> result = new ArrayList<>();
    for (Object item : Values.toList(render, value)) {
      Object key = getter.get(item);
      if (seen.add(PyDict.hashKey(caseSensitive ? key : ignoreCase(key)))) {
        result.add(item);
      }
    }
    return new PyIterator(result.iterator());
  }

  private static Object groupBy(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(1, "attribute", "default", "case_sensitive");
    boolean caseSensitive = flag(bound[2]);
    Getter getter = new Getter(java.util.Objects.requireNonNull(bound[0]), bound[1]);
    Function<Object, Object> key =
        item -> caseSensitive ? getter.get(item) : ignoreCase(getter.get(item));
    List<Object> groups = new ArrayList<>();
    List<Object> current = new ArrayList<>();
    Object currentKey = null;
    for (Object item : sorted(render, Values.toList(render, value), key, false)) {
      Object itemKey = key.apply(item);
      if (currentKey != null && !Values.same(render, currentKey, itemKey)) {
        groups.add(group(getter, current));
        current = new ArrayList<>();
      }
      currentKey = itemKey;
      current.add(item);
    }
    if (!current.isEmpty()) {
      groups.add(group(getter, current));
    }
    return new PyList(groups);
  }

  /** A group goes by the key of its first item, in that item's own case. */
  private static Object group(Getter getter, List<Object> items) {
    return new PyTuple(List.of(getter.get(items.getFirst()), new PyList(items)), true);
  }

  private static Object extreme(Render render, Object value, Args args, boolean largest) {
    @Nullable Object[] bound = args.bind(0, "case_sensitive", "attribute");
    boolean caseSensitive = flag(bound[0]);
    Getter getter = new Getter(bound[1] == null ? None.NONE : bound[1], null);
    Object best = null;
    Object bestKey = null;
    for (Object item : Values.toList(render, value)) {
      Object key = caseSensitive ? getter.get(item) : ignoreCase(getter.get(item));
      if (bestKey == null) {
        best = item;
        bestKey = key;
        continue;
      }
      boolean better =
          Values.ordered(
              render, largest ? Node.Comparison.GREATER : Node.Comparison.LESS, key, bestKey);
      if (better) {
        best = item;
        bestKey = key;
      }
    }
    return best == null ? Undefined.MISSING : best;
  }

  private static Object sum(Render render, Object value, Args args) {
    @Nullable Object[] bound = args.bind(0, "attribute", "start");
    Getter getter = new Getter(bound[0] == null ? None.NONE : bound[0], null);
    Object total = bound[1] == null ? (Object) 0L : bound[1];
    if (Values.asText(total) != null) {
      throw TemplateError.type();
    }
    for (Object item : Values.toList(render, value)) {
      total = Values.add(render, total, getter.get(item));
    }
    return total;
  }
}
