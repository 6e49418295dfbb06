// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The methods of Python's {@code str}. */
final class StrMethods {

  /** A method not yet bound to its text. */
  @FunctionalInterface
  interface Method {
    Object call(Render render, String self, Args args);
  }

  private interface Predicate {
    boolean test(int codePoint);
  }

  private static final Map<String, Method> METHODS = new HashMap<>();

  static {
    METHODS.put("upper", (r, s, a) -> plain(r, a, s.toUpperCase(Locale.ROOT)));
    METHODS.put("lower", (r, s, a) -> plain(r, a, s.toLowerCase(Locale.ROOT)));
    METHODS.put("casefold", (r, s, a) -> plain(r, a, caseFold(s)));
    METHODS.put("title", (r, s, a) -> plain(r, a, title(s)));
    METHODS.put("capitalize", (r, s, a) -> plain(r, a, capitalize(s)));
    METHODS.put("swapcase", (r, s, a) -> plain(r, a, swapCase(s)));
    METHODS.put("strip", (r, s, a) -> strip(r, s, a, true, true));
    METHODS.put("lstrip", (r, s, a) -> strip(r, s, a, true, false));
    METHODS.put("rstrip", (r, s, a) -> strip(r, s, a, false, true));
    METHODS.put("split", (r, s, a) -> split(r, s, a, false));
    METHODS.put("rsplit", (r, s, a) -> split(r, s, a, true));
    METHODS.put("splitlines", StrMethods::splitLines);
    METHODS.put("join", StrMethods::join);
    METHODS.put("replace", StrMethods::replace);
    METHODS.put("startswith", (r, s, a) -> hasAffix(s, a, true));
    METHODS.put("endswith", (r, s, a) -> hasAffix(s, a, false));
    METHODS.put("find", (r, s, a) -> find(s, a, false));
    METHODS.put("rfind", (r, s, a) -> find(s, a, true));
    METHODS.put("index", (r, s, a) -> found(find(s, a, false)));
    METHODS.put("rindex", (r, s, a) -> found(find(s, a, true)));
    METHODS.put("count", (r, s, a) -> count(s, a));
    METHODS.put("partition", (r, s, a) -> partition(r, s, a, false));
    METHODS.put("rpartition", (r, s, a) -> partition(r, s, a, true));
    METHODS.put(
        "removeprefix",
        (r, s, a) -> {
          String prefix = text(a.positional(1, 1).getFirst());
          return s.startsWith(prefix) ? s.substring(prefix.length()) : s;
        });
    METHODS.put(
        "removesuffix",
        (r, s, a) -> {
          String suffix = text(a.positional(1, 1).getFirst());
          return s.endsWith(suffix) ? s.substring(0, s.length() - suffix.length()) : s;
        });
    METHODS.put("center", (r, s, a) -> pad(r, s, a, Alignment.CENTER));
    METHODS.put("ljust", (r, s, a) -> pad(r, s, a, Alignment.LEFT));
    METHODS.put("rjust", (r, s, a) -> pad(r, s, a, Alignment.RIGHT));
    METHODS.put("zfill", StrMethods::zeroFill);
    METHODS.put("expandtabs", StrMethods::expandTabs);
    METHODS.put("format", (r, s, a) -> BraceFormat.format(r, s, a));
    METHODS.put(
        "format_map",
        (r, s, a) -> {
          if (!(a.positional(1, 1).getFirst() instanceof PyDict values)) {
            throw TemplateError.type();
          }
          return BraceFormat.format(r, s, Attributes.keywords(values));
        });
    METHODS.put("isalpha", (r, s, a) -> all(s, a, Character::isLetter));
    METHODS.put("isdecimal", (r, s, a) -> all(s, a, Character::isDigit));
    METHODS.put("isdigit", (r, s, a) -> all(s, a, StrMethods::isDigit));
    METHODS.put("isnumeric", (r, s, a) -> all(s, a, StrMethods::isNumeric));
    METHODS.put("isalnum", (r, s, a) -> all(s, a, c -> Character.isLetter(c) || isNumeric(c)));
    METHODS.put("isspace", (r, s, a) -> all(s, a, c -> c < 0x10000 && Unicode.isSpace((char) c)));
    METHODS.put("isprintable", (r, s, a) -> s.isEmpty() || all(s, a, Unicode::isPrintable));
    METHODS.put("isascii", (r, s, a) -> s.isEmpty() || all(s, a, c -> c < 128));
    METHODS.put(
        "isupper",
        (r, s, a) -> {
          a.positional(0, 0);
          return isUpper(s);
        });
    METHODS.put(
        "islower",
        (r, s, a) -> {
          a.positional(0, 0);
          return isLower(s);
        });
    METHODS.put(
        "istitle",
        (r, s, a) -> {
          a.positional(0, 0);
          return isTitle(s);
        });
    METHODS.put(
        "isidentifier",
        (r, s, a) -> {
          a.positional(0, 0);
          return isIdentifier(s);
        });
    for (String name : List.of("encode", "translate", "maketrans")) {
      METHODS.put(
          name,
          (_, _, _) -> {
            throw TemplateError.unsupported("method_" + name);
          });
    }
  }

  private StrMethods() {}

  static @Nullable Method find(String name) {
    return METHODS.get(name);
  }

  private static String plain(Render render, Args args, String result) {
    args.positional(0, 0);
    render.text(result.length());
    return result;
  }

  /** The text of an argument that must be a {@code str}. */
  static String text(Object value) {
    String text = Values.asText(value);
    if (text == null) {
      throw TemplateError.type();
    }
    return text;
  }

  private static boolean isCased(int c) {
    return Character.isUpperCase(c) || Character.isLowerCase(c) || Character.isTitleCase(c);
  }

  private static void appendTitle(StringBuilder out, int c) {
    int simple = Character.toTitleCase(c);
    String upper = Character.toString(c).toUpperCase(Locale.ROOT);
    if (simple == c && upper.codePointCount(0, upper.length()) > 1) {
      // One letter becoming several, such as a sharp s: only the first is a capital.
      int first = upper.offsetByCodePoints(0, 1);
      out.append(upper, 0, first).append(upper.substring(first).toLowerCase(Locale.ROOT));
    } else {
      out.appendCodePoint(simple);
    }
  }

  static String capitalize(String text) {
    if (text.isEmpty()) {
      return text;
    }
    int first = text.offsetByCodePoints(0, 1);
    StringBuilder out = new StringBuilder(text.length());
    appendTitle(out, text.codePointAt(0));
    return out.append(text.substring(first).toLowerCase(Locale.ROOT)).toString();
  }

  private static String title(String text) {
    StringBuilder out = new StringBuilder(text.length());
    StringBuilder word = new StringBuilder();
    boolean inWord = false;
    for (int i = 0; i < text.length(); ) {
      int c = text.codePointAt(i);
      i += Character.charCount(c);
      if (inWord) {
        if (isCased(c)) {
          word.appendCodePoint(c);
          continue;
        }
        out.append(word.toString().toLowerCase(Locale.ROOT));
        word.setLength(0);
        out.appendCodePoint(c);
        inWord = false;
      } else {
        appendTitle(out, c);
        inWord = isCased(c);
      }
    }
    return out.append(word.toString().toLowerCase(Locale.ROOT)).toString();
  }

  /** Letter by letter: unlike lower case, folding knows no final sigma. */
  private static String caseFold(String text) {
    StringBuilder out = new StringBuilder(text.length());
    text.codePoints()
        .forEach(
            c ->
                out.append(
                    Character.toString(c).toUpperCase(Locale.ROOT).toLowerCase(Locale.ROOT)));
    return out.toString();
  }

  private static String swapCase(String text) {
    // Lower case looks at the neighbours of a sigma, so it is taken of the whole where places
    // match.
    String lower = text.toLowerCase(Locale.ROOT);
    boolean aligned = lower.length() == text.length();
    StringBuilder out = new StringBuilder(text.length());
    for (int i = 0; i < text.length(); ) {
      int c = text.codePointAt(i);
      int end = i + Character.charCount(c);
      if (Character.isUpperCase(c)) {
        out.append(
            aligned ? lower.substring(i, end) : Character.toString(c).toLowerCase(Locale.ROOT));
      } else if (Character.isLowerCase(c)) {
        out.append(Character.toString(c).toUpperCase(Locale.ROOT));
      } else {
        out.appendCodePoint(c);
      }
      i = end;
    }
    return out.toString();
  }

  private static boolean all(String text, Args args, Predicate predicate) {
    args.positional(0, 0);
    return !text.isEmpty() && text.codePoints().allMatch(predicate::test);
  }

  /** Numeric type "digit": decimal digits, and those in circles, brackets or above the line. */
  static boolean isDigit(int c) {
    return Character.isDigit(c)
        || c == 0xb2
        || c == 0xb3
        || c == 0xb9
        || (c >= 0x1369 && c <= 0x1371)
        || c == 0x19da
        || c == 0x2070
        || (c >= 0x2074 && c <= 0x2079)
        || (c >= 0x2080 && c <= 0x2089)
        || (c >= 0x2460 && c <= 0x2468)
        || (c >= 0x2474 && c <= 0x247c)
        || (c >= 0x2488 && c <= 0x2490)
        || c == 0x24ea
        || (c >= 0x24f5 && c <= 0x24fd)
        || c == 0x24ff
        || (c >= 0x2776 && c <= 0x277e)
        || (c >= 0x2780 && c <= 0x2788)
        || (c >= 0x278a && c <= 0x2792)
        || (c >= 0x1f100 && c <= 0x1f10a);
  }

  private static boolean isNumeric(int c) {
    int type = Character.getType(c);
    return isDigit(c) || type == Character.LETTER_NUMBER || type == Character.OTHER_NUMBER;
  }

  static boolean isUpper(String text) {
    return text.codePoints().anyMatch(Character::isUpperCase)
        && text.codePoints().noneMatch(c -> Character.isLowerCase(c) || Character.isTitleCase(c));
  }

  static boolean isLower(String text) {
    return text.codePoints().anyMatch(Character::isLowerCase)
        && text.codePoints().noneMatch(c -> Character.isUpperCase(c) || Character.isTitleCase(c));
  }

  private static boolean isTitle(String text) {
    boolean any = false;
    boolean inWord = false;
    for (int i = 0; i < text.length(); ) {
      int c = text.codePointAt(i);
      i += Character.charCount(c);
      if (Character.isUpperCase(c) || Character.isTitleCase(c)) {
        if (inWord) {
          return false;
        }
        inWord = true;
        any = true;
      } else if (Character.isLowerCase(c)) {
        if (!inWord) {
          return false;
        }
      } else {
        inWord = false;
      }
    }
    return any;
  }

  private static boolean isIdentifier(String text) {
    if (text.isEmpty()) {
      return false;
    }
    int first = text.codePointAt(0);
    return (first == '_' || Character.isUnicodeIdentifierStart(first))
        && text.codePoints().skip(1).allMatch(Character::isUnicodeIdentifierPart);
  }

  private static Object strip(Render render, String text, Args args, boolean start, boolean end) {
    List<Object> given = args.positional(0, 1);
    render.text(text.length());
    if (given.isEmpty() || given.getFirst() == None.NONE) {
      String result = end ? Unicode.stripEnd(text) : text;
      return start ? Unicode.stripStart(result) : result;
    }
    return strip(text, text(given.getFirst()), start, end);
  }

  static String strip(String text, String characters, boolean start, boolean end) {
    int from = 0;
    int to = text.length();
    while (start && from < to) {
      int c = text.codePointAt(from);
      if (characters.indexOf(c) < 0) {
        break;
      }
      from += Character.charCount(c);
    }
    while (end && to > from) {
      int c = text.codePointBefore(to);
      if (characters.indexOf(c) < 0) {
        break;
      }
      to -= Character.charCount(c);
    }
    return text.substring(from, Math.max(from, to));
  }

  private static Object split(Render render, String text, Args args, boolean fromRight) {
    @Nullable Object[] bound = args.bind(0, "sep", "maxsplit");
    int limit = bound[1] == null ? -1 : Numbers.index(bound[1]);
    if (limit < 0) {
      limit = Integer.MAX_VALUE;
    }
    Object separator = bound[0];
    render.text(text.length());
    List<Object> parts = new ArrayList<>();
    if (separator == null || separator == None.NONE) {
      if (fromRight) {
        rsplitSpace(render, text, limit, parts);
        Collections.reverse(parts);
      } else {
        splitSpace(render, text, limit, parts);
      }
    } else {
      String mark = text(separator);
      if (mark.isEmpty()) {
        throw TemplateError.value();
      }
      if (fromRight) {
        rsplitText(render, text, mark, limit, parts);
        Collections.reverse(parts);
      } else {
        splitText(render, text, mark, limit, parts);
      }
    }
    render.items(parts.size());
    return new PyList(parts);
  }

  private static void splitText(
      Render render, String text, String mark, int limit, List<Object> parts) {
    int from = 0;
    for (int n = 0; n < limit; n++) {
      int at = TextSearch.indexOf(text, mark, from);
      if (at < 0) {
        break;
      }
      add(render, parts, text.substring(from, at));
      from = at + mark.length();
    }
    add(render, parts, text.substring(from));
  }

  private static void rsplitText(
      Render render, String text, String mark, int limit, List<Object> parts) {
    int to = text.length();
    for (int n = 0; n < limit; n++) {
      int at = to < mark.length() ? -1 : TextSearch.lastIndexOf(text, mark, to - mark.length());
      if (at < 0) {
        break;
      }
      add(render, parts, text.substring(at + mark.length(), to));
      to = at;
    }
    add(render, parts, text.substring(0, to));
  }

  private static void splitSpace(Render render, String text, int limit, List<Object> parts) {
    int i = 0;
    while (true) {
      while (i < text.length() && Unicode.isSpace(text.charAt(i))) {
        i++;
      }
      if (i >= text.length()) {
        return;
      }
      if (parts.size() == limit) {
        add(render, parts, text.substring(i));
        return;
      }
      int from = i;
      while (i < text.length() && !Unicode.isSpace(text.charAt(i))) {
        i++;
      }
      add(render, parts, text.substring(from, i));
    }
  }

  private static void rsplitSpace(Render render, String text, int limit, List<Object> parts) {
    int i = text.length();
    while (true) {
      while (i > 0 && Unicode.isSpace(text.charAt(i - 1))) {
        i--;
      }
      if (i == 0) {
        return;
      }
      if (parts.size() == limit) {
        add(render, parts, text.substring(0, i));
        return;
      }
      int to = i;
      while (i > 0 && !Unicode.isSpace(text.charAt(i - 1))) {
        i--;
      }
      add(render, parts, text.substring(i, to));
    }
  }

  private static void add(Render render, List<Object> parts, String part) {
    render.checkItems(parts.size() + 1L);
    parts.add(part);
  }

  private static Object splitLines(Render render, String text, Args args) {
    Object keep = args.bind(0, "keepends")[0];
    List<Object> lines = new ArrayList<>(lines(render, text, keep != null && Values.truth(keep)));
    render.text(text.length());
    render.items(lines.size());
    return new PyList(lines);
  }

  static List<String> lines(Render render, String text, boolean keepEnds) {
    List<String> lines = new ArrayList<>();
    int from = 0;
    int i = 0;
    while (i < text.length()) {
      char c = text.charAt(i);
      boolean isEnd =
          (c >= '\n' && c <= '\r')
              || (c >= 0x1c && c <= 0x1e)
              || c == 0x85
              || c == 0x2028
              || c == 0x2029;
      if (!isEnd) {
        i++;
        continue;
      }
      int end = c == '\r' && i + 1 < text.length() && text.charAt(i + 1) == '\n' ? i + 2 : i + 1;
      render.checkItems(lines.size() + 1L);
      lines.add(text.substring(from, keepEnds ? end : i));
      from = end;
      i = end;
    }
    if (from < text.length()) {
      lines.add(text.substring(from));
    }
    return lines;
  }

  private static Object join(Render render, String separator, Args args) {
    StringBuilder out = new StringBuilder();
    Iterator<Object> items = Values.iterate(args.positional(1, 1).getFirst());
    boolean first = true;
    while (items.hasNext()) {
      if (!first) {
        out.append(separator);
      }
      first = false;
      String item = text(items.next());
      render.text((long) item.length() + separator.length());
      out.append(item);
      render.checkText(out.length());
    }
    render.text(out.length());
    return out.toString();
  }

  private static Object replace(Render render, String text, Args args) {
    List<Object> given = args.positional(2, 3);
    int limit = given.size() < 3 ? -1 : Numbers.index(given.get(2));
    return replace(render, text, text(given.get(0)), text(given.get(1)), limit);
  }

  /** Replaces the first {@code limit} occurrences, all when it is negative. */
  static String replace(Render render, String text, String old, String with, int limit) {
    int left = limit < 0 ? Integer.MAX_VALUE : limit;
    render.text(text.length());
    if (old.isEmpty()) {
      return replaceEmpty(render, text, with, left);
    }
    int at = left == 0 ? -1 : TextSearch.indexOf(text, old, 0);
    if (at < 0) {
      return text;
    }
    StringBuilder out = new StringBuilder(text.length() + with.length());
    int from = 0;
    while (at >= 0 && left-- > 0) {
      out.append(text, from, at).append(with);
      render.checkText(out.length());
      from = at + old.length();
      at = TextSearch.indexOf(text, old, from);
    }
    out.append(text, from, text.length());
    render.text(out.length());
    return out.toString();
  }

  private static String replaceEmpty(Render render, String text, String with, int limit) {
    StringBuilder out = new StringBuilder(text.length() + with.length());
    int left = limit;
    for (int i = 0; i < text.length() && left > 0; left--) {
      int end = text.offsetByCodePoints(i, 1);
      out.append(with).append(text, i, end);
      render.checkText(out.length());
      i = end;
      if (left == 1) {
        return out.append(text, i, text.length()).toString();
      }
    }
    if (left > 0) {
      out.append(with);
    } else if (limit <= 0) {
      return text;
    }
    render.text(out.length());
    return out.toString();
  }

  /** Part of a text between the optional bounds of {@code find} and its like, in code points. */
  private record Range(int from, int to, boolean isEmpty) {
    static Range of(String text, List<Object> given, int first) {
      int length = Unicode.length(text);
      int start = given.size() > first ? bound(given.get(first), 0, length) : 0;
      int end = given.size() > first + 1 ? bound(given.get(first + 1), length, length) : length;
      if (start > length || start > end) {
        return new Range(0, 0, true);
      }
      return new Range(Unicode.offset(text, start), Unicode.offset(text, end), false);
    }

    private static int bound(Object value, int missing, int length) {
      if (value == None.NONE) {
        return missing;
      }
      int index = Numbers.index(value);
      if (index < 0) {
        return Math.max(index + length, 0);
      }
      return missing == 0 ? index : Math.min(index, length);
    }
  }

  private static Object hasAffix(String text, Args args, boolean prefix) {
    List<Object> given = args.positional(1, 3);
    List<Object> affixes =
        given.getFirst() instanceof PyTuple tuple ? tuple.items() : given.subList(0, 1);
    Range range = given.size() == 1 ? new Range(0, text.length(), false) : Range.of(text, given, 1);
    for (Object affix : affixes) {
      String wanted = text(affix);
      int length = wanted.length();
      if (!range.isEmpty
          && length <= range.to - range.from
          && text.startsWith(wanted, prefix ? range.from : range.to - length)) {
        return true;
      }
    }
    return false;
  }

  private static long find(String text, Args args, boolean last) {
    List<Object> given = args.positional(1, 3);
    String wanted = text(given.getFirst());
    Range range = Range.of(text, given, 1);
    if (range.isEmpty) {
      return -1;
    }
    int at =
        last
            ? TextSearch.lastIndexOf(text, wanted, range.to - wanted.length())
            : TextSearch.indexOf(text, wanted, range.from);
    if (at < range.from || at + wanted.length() > range.to) {
      return -1;
    }
    return text.codePointCount(0, at);
  }

  private static Object found(long index) {
    if (index < 0) {
      throw TemplateError.value();
    }
    return index;
  }

  private static Object count(String text, Args args) {
    List<Object> given = args.positional(1, 3);
    String wanted = text(given.getFirst());
    Range range = Range.of(text, given, 1);
    if (range.isEmpty) {
      return 0L;
    }
    String part = text.substring(range.from, range.to);
    if (wanted.isEmpty()) {
      return Unicode.length(part) + 1L;
    }
    long count = 0;
    for (int i = TextSearch.indexOf(part, wanted, 0);
        i >= 0;
        i = TextSearch.indexOf(part, wanted, i + wanted.length())) {
      count++;
    }
    return count;
  }

  private static Object partition(Render render, String text, Args args, boolean last) {
    String mark = text(args.positional(1, 1).getFirst());
    if (mark.isEmpty()) {
      throw TemplateError.value();
    }
    render.text(text.length());
    int at =
        last
            ? TextSearch.lastIndexOf(text, mark, text.length())
            : TextSearch.indexOf(text, mark, 0);
    if (at < 0) {
      return last ? PyTuple.of("", "", text) : PyTuple.of(text, "", "");
    }
    return PyTuple.of(text.substring(0, at), mark, text.substring(at + mark.length()));
  }

  enum Alignment {
    LEFT,
    RIGHT,
    CENTER
  }

  private static Object pad(Render render, String text, Args args, Alignment alignment) {
    List<Object> given = args.positional(1, 2);
    String fill = given.size() < 2 ? " " : text(given.get(1));
    if (Unicode.length(fill) != 1) {
      throw TemplateError.type();
    }
    return pad(render, text, Numbers.index(given.getFirst()), fill, alignment);
  }

  static String pad(Render render, String text, int width, String fill, Alignment alignment) {
    int missing = width - Unicode.length(text);
    if (missing <= 0) {
      return text;
    }
    render.text((long) missing * fill.length() + text.length());
    int left =
        switch (alignment) {
          case LEFT -> 0;
          case RIGHT -> missing;
          // Python puts the odd one on the left when the width is odd too.
          case CENTER -> missing / 2 + (missing & width & 1);
        };
    return fill.repeat(left) + text + fill.repeat(missing - left);
  }

  private static Object zeroFill(Render render, String text, Args args) {
    int width = Numbers.index(args.positional(1, 1).getFirst());
    int missing = width - Unicode.length(text);
    if (missing <= 0) {
      return text;
    }
    render.text((long) missing + text.length());
    boolean signed = text.startsWith("+") || text.startsWith("-");
    return signed
        ? text.charAt(0) + "0".repeat(missing) + text.substring(1)
        : "0".repeat(missing) + text;
  }

  private static Object expandTabs(Render render, String text, Args args) {
    Object given = args.bind(0, "tabsize")[0];
    int size = given == null ? 8 : Numbers.index(given);
    StringBuilder out = new StringBuilder();
    int column = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '\t') {
        if (size > 0) {
          int spaces = size - column % size;
          render.text((long) out.length() + spaces);
          out.repeat(' ', spaces);
          column += spaces;
        }
      } else {
        out.append(c);
        column = c == '\n' || c == '\r' ? 0 : Character.isLowSurrogate(c) ? column : column + 1;
      }
    }
    render.text(out.length());
    return out.toString();
  }
}
