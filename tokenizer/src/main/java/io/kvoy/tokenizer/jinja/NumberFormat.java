// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;

/** Digits of floats for the conversions e, f and g of both of Python's format languages. */
final class NumberFormat {
  /** More digits than any double has. */
  static final int MAX_PRECISION = 1_100;

  private NumberFormat() {}

  /**
   * The magnitude of a float, without sign.
   *
   * @param type one of {@code e E f F g G}
   * @param alternate keeps the point and g's trailing zeros ({@code #})
   */
  static String magnitude(double value, char type, int precision, boolean alternate) {
    if (precision > MAX_PRECISION) {
      throw TemplateError.unsupported("limit_precision");
    }
    boolean upper = Character.isUpperCase(type);
    String text;
    if (Double.isNaN(value)) {
      text = "nan";
    } else if (Double.isInfinite(value)) {
      text = "inf";
    } else {
      BigDecimal exact = new BigDecimal(Math.abs(value));
      text =
          switch (Character.toLowerCase(type)) {
            case 'e' -> exponential(exact, precision, alternate);
            case 'f' -> fixed(exact, precision, alternate);
            case 'g' -> general(exact, precision, alternate);
            default -> throw new IllegalArgumentException("float type " + type);
          };
    }
    return upper ? text.toUpperCase(java.util.Locale.ROOT) : text;
  }

  private static String fixed(BigDecimal value, int precision, boolean alternate) {
    String text = value.setScale(precision, RoundingMode.HALF_EVEN).toPlainString();
    return precision == 0 && alternate ? text + "." : text;
  }

  private static String exponential(BigDecimal value, int precision, boolean alternate) {
    BigDecimal rounded =
        value.signum() == 0
            ? value
            : value.round(new MathContext(precision + 1, RoundingMode.HALF_EVEN));
    String digits = rounded.unscaledValue().toString();
    int exponent = value.signum() == 0 ? 0 : digits.length() - rounded.scale() - 1;
    StringBuilder out = new StringBuilder();
    out.append(digits.charAt(0));
    if (precision > 0 || alternate) {
      out.append('.');
    }
    String fraction = digits.substring(1);
    if (fraction.length() > precision) {
      fraction = fraction.substring(0, precision);
    }
    out.append(fraction).repeat('0', precision - fraction.length());
    out.append('e').append(exponent < 0 ? '-' : '+');
    if (Math.abs(exponent) < 10) {
      out.append('0');
    }
    return out.append(Math.abs(exponent)).toString();
  }

  private static String general(BigDecimal value, int given, boolean alternate) {
    int precision = Math.max(given, 1);
    if (value.signum() == 0) {
      return alternate ? "0." + "0".repeat(precision - 1) : "0";
    }
    BigDecimal rounded = value.round(new MathContext(precision, RoundingMode.HALF_EVEN));
    int exponent = rounded.precision() - rounded.scale() - 1;
    if (exponent < -4 || exponent >= precision) {
      String text = exponential(value, precision - 1, alternate);
      return alternate ? text : trim(text);
    }
    String text = fixed(value, precision - 1 - exponent, alternate);
    return alternate ? text : trim(text);
  }

  private static String trim(String text) {
    int mark = text.indexOf('e');
    String mantissa = mark < 0 ? text : text.substring(0, mark);
    String tail = mark < 0 ? "" : text.substring(mark);
    if (mantissa.indexOf('.') >= 0) {
      mantissa = StrMethods.strip(mantissa, "0", false, true);
      mantissa = StrMethods.strip(mantissa, ".", false, true);
    }
    return mantissa + tail;
  }
}
