// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.time.DayOfWeek;
import java.time.LocalDateTime;
import java.time.ZonedDateTime;
import java.time.format.TextStyle;
import java.time.temporal.ChronoUnit;
import java.time.temporal.IsoFields;
import java.util.Locale;

/**
 * Python's {@code datetime.now().strftime(format)} on Linux in the C locale; the time has no zone
 * there.
 */
final class Strftime {
  private Strftime() {}

  static String format(Render render, String format) {
    LocalDateTime time = ZonedDateTime.now(render.clock()).toLocalDateTime();
    render.text(format.length() * 8L);
    StringBuilder out = new StringBuilder(format.length() * 2);
    for (int i = 0; i < format.length(); i++) {
      char c = format.charAt(i);
      if (c != '%' || i + 1 == format.length()) {
        out.append(c);
        continue;
      }
      c = format.charAt(++i);
      char flag = 0;
      if ((c == '-' || c == '_' || c == '^' || c == '0' || c == '#') && i + 1 < format.length()) {
        flag = c;
        c = format.charAt(++i);
      }
      directive(time, c, flag, out);
    }
    return out.toString();
  }

  private static void directive(LocalDateTime time, char c, char flag, StringBuilder out) {
    switch (c) {
      case 'Y' -> out.append(time.getYear());
      case 'm' -> number(time.getMonthValue(), 2, '0', flag, out);
      case 'd' -> number(time.getDayOfMonth(), 2, '0', flag, out);
      case 'e' -> number(time.getDayOfMonth(), 2, ' ', flag, out);
      case 'y' -> number(time.getYear() % 100, 2, '0', flag, out);
      case 'C' -> number(time.getYear() / 100, 2, '0', flag, out);
      case 'H' -> number(time.getHour(), 2, '0', flag, out);
      case 'k' -> number(time.getHour(), 2, ' ', flag, out);
      case 'I' -> number(hour12(time), 2, '0', flag, out);
      case 'l' -> number(hour12(time), 2, ' ', flag, out);
      case 'M' -> number(time.getMinute(), 2, '0', flag, out);
      case 'S' -> number(time.getSecond(), 2, '0', flag, out);
      case 'f' -> number(time.getNano() / 1000, 6, '0', (char) 0, out);
      case 'j' -> number(time.getDayOfYear(), 3, '0', flag, out);
      case 'u' -> out.append(time.getDayOfWeek().getValue());
      case 'w' -> out.append(time.getDayOfWeek().getValue() % 7);
      case 'U' -> number(week(time, DayOfWeek.SUNDAY), 2, '0', flag, out);
      case 'W' -> number(week(time, DayOfWeek.MONDAY), 2, '0', flag, out);
      case 'V' -> number(time.get(IsoFields.WEEK_OF_WEEK_BASED_YEAR), 2, '0', flag, out);
      case 'G' -> out.append(time.get(IsoFields.WEEK_BASED_YEAR));
      case 'g' -> number(time.get(IsoFields.WEEK_BASED_YEAR) % 100, 2, '0', flag, out);
      case 'b', 'h' -> text(month(time).substring(0, 3), flag, out);
      case 'B' -> text(month(time), flag, out);
      case 'a' -> text(day(time).substring(0, 3), flag, out);
      case 'A' -> text(day(time), flag, out);
      case 'p' -> out.append(time.getHour() < 12 ? "AM" : "PM");
      case 'P' -> out.append(time.getHour() < 12 ? "am" : "pm");
      case 'n' -> out.append('\n');
      case 't' -> out.append('\t');
      case '%' -> out.append('%');
      case 'z', 'Z' -> {}
      case 'D', 'x' -> all(time, "m/d/y", out);
      case 'F' -> all(time, "Y-m-d", out);
      case 'T', 'X' -> all(time, "H:M:S", out);
      case 'R' -> all(time, "H:M", out);
      case 'r' -> all(time, "I:M:S p", out);
      case 'c' -> all(time, "a b e H:M:S Y", out);
      default -> throw TemplateError.unsupported("strftime_directive");
    }
  }

  private static void all(LocalDateTime time, String directives, StringBuilder out) {
    for (int i = 0; i < directives.length(); i++) {
      char c = directives.charAt(i);
      if (Character.isLetter(c)) {
        directive(time, c, (char) 0, out);
      } else {
        out.append(c);
      }
    }
  }

  private static int hour12(LocalDateTime time) {
    int hour = time.getHour() % 12;
    return hour == 0 ? 12 : hour;
  }

  /** Weeks that began in this year with the given day. */
  private static int week(LocalDateTime time, DayOfWeek first) {
    int sinceFirst = Math.floorMod(time.getDayOfWeek().getValue() - first.getValue(), 7);
    long dayOfYear =
        ChronoUnit.DAYS.between(time.toLocalDate().withDayOfYear(1), time.toLocalDate());
    return (int) ((dayOfYear + 7 - sinceFirst) / 7);
  }

  private static String month(LocalDateTime time) {
    return time.getMonth().getDisplayName(TextStyle.FULL, Locale.ENGLISH);
  }

  private static String day(LocalDateTime time) {
    return time.getDayOfWeek().getDisplayName(TextStyle.FULL, Locale.ENGLISH);
  }

  private static void number(int value, int width, char pad, char flag, StringBuilder out) {
    String digits = Integer.toString(value);
    char fill = flag == '_' ? ' ' : flag == '0' ? '0' : pad;
    if (flag != '-' && digits.length() < width) {
      out.repeat(fill, width - digits.length());
    }
    out.append(digits);
  }

  private static void text(String text, char flag, StringBuilder out) {
    out.append(flag == '^' || flag == '#' ? text.toUpperCase(Locale.ROOT) : text);
  }
}
