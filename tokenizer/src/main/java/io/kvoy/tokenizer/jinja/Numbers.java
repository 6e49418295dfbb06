// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import org.jspecify.annotations.Nullable;

/**
 * Python's numbers: {@code int} is a {@link Long} while it fits and a {@link BigInteger} beyond,
 * {@code float} is a {@link Double}, {@code bool} counts as 0 or 1.
 */
final class Numbers {
  /** Size of an int that may come into being; Python refuses to print more than 4300 digits. */
  private static final int MAX_INT_BITS = 14_000;

  private static final BigInteger MIN_LONG = BigInteger.valueOf(Long.MIN_VALUE);
  private static final BigInteger MAX_LONG = BigInteger.valueOf(Long.MAX_VALUE);

  private Numbers() {}

  static Object shrink(BigInteger value) {
    if (value.compareTo(MIN_LONG) >= 0 && value.compareTo(MAX_LONG) <= 0) {
      return value.longValue();
    }
    if (value.bitLength() > MAX_INT_BITS) {
      throw TemplateError.unsupported("limit_int");
    }
    return value;
  }

  static boolean isNumber(Object value) {
    return value instanceof Long
        || value instanceof Double
        || value instanceof Boolean
        || value instanceof BigInteger;
  }

  static boolean isInt(Object value) {
    return value instanceof Long || value instanceof Boolean || value instanceof BigInteger;
  }

  static BigInteger big(Object value) {
    return switch (value) {
      case Long number -> BigInteger.valueOf(number);
      case BigInteger number -> number;
      case Boolean flag -> flag ? BigInteger.ONE : BigInteger.ZERO;
      default -> throw TemplateError.type();
    };
  }

  static double real(Object value) {
    return switch (value) {
      case Double number -> number;
      case Long number -> number;
      case Boolean flag -> flag ? 1 : 0;
      case BigInteger number -> {
        double result = number.doubleValue();
        if (Double.isInfinite(result)) {
          throw TemplateError.overflow();
        }
        yield result;
      }
      default -> throw TemplateError.type();
    };
  }

  /** An int used as an index or count, limited to the range of Java's int. */
  static int index(Object value) {
    return switch (value) {
      case Long number -> Math.clamp(number, -Integer.MAX_VALUE, Integer.MAX_VALUE);
      case Boolean flag -> flag ? 1 : 0;
      case BigInteger number -> number.signum() < 0 ? -Integer.MAX_VALUE : Integer.MAX_VALUE;
      case Undefined undefined -> throw undefined.error();
      default -> throw TemplateError.type();
    };
  }

  static Object hashKey(double number) {
    if (number == Math.rint(number) && !Double.isInfinite(number)) {
      return shrink(new BigDecimal(number).toBigInteger());
    }
    return number;
  }

  static @Nullable Object add(Object a, Object b) {
    if (a instanceof Long x && b instanceof Long y) {
      long sum = x + y;
      return ((x ^ sum) & (y ^ sum)) < 0 ? big(a).add(big(b)) : (Object) sum;
    }
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    return isInt(a) && isInt(b) ? shrink(big(a).add(big(b))) : (Object) (real(a) + real(b));
  }

  static @Nullable Object subtract(Object a, Object b) {
    if (a instanceof Long x && b instanceof Long y) {
      long difference = x - y;
      return ((x ^ y) & (x ^ difference)) < 0 ? big(a).subtract(big(b)) : (Object) difference;
    }
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    return isInt(a) && isInt(b) ? shrink(big(a).subtract(big(b))) : (Object) (real(a) - real(b));
  }

  static @Nullable Object multiply(Object a, Object b) {
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    if (isInt(a) && isInt(b)) {
      BigInteger x = big(a);
      BigInteger y = big(b);
      if (x.bitLength() + y.bitLength() > MAX_INT_BITS) {
        throw TemplateError.unsupported("limit_int");
      }
      return shrink(x.multiply(y));
    }
    return real(a) * real(b);
  }

  static @Nullable Object divide(Object a, Object b) {
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    if (isInt(a) && isInt(b)) {
      BigInteger divisor = big(b);
      if (divisor.signum() == 0) {
        throw TemplateError.zeroDivision();
      }
      BigInteger dividend = big(a);
      if (dividend.bitLength() <= 53 && divisor.bitLength() <= 53) {
        return dividend.doubleValue() / divisor.doubleValue();
      }
      if (dividend.signum() == 0) {
        return divisor.signum() < 0 ? -0.0 : 0.0;
      }
      // Python rounds the exact quotient once; 700 digits are exact enough to round right.
      double quotient =
          new BigDecimal(dividend)
              .divide(new BigDecimal(divisor), new java.math.MathContext(700))
              .doubleValue();
      if (Double.isInfinite(quotient)) {
        throw TemplateError.overflow();
      }
      return quotient;
    }
    double divisor = real(b);
    if (divisor == 0) {
      throw TemplateError.zeroDivision();
    }
    return real(a) / divisor;
  }

  static @Nullable Object floorDivide(Object a, Object b) {
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    if (isInt(a) && isInt(b)) {
      return shrink(divmod(big(a), big(b))[0]);
    }
    double x = real(a);
    double y = real(b);
    if (y == 0) {
      throw TemplateError.zeroDivision();
    }
    // Step by step what CPython's float_floor_div does, roundings included.
    double remainder = x % y;
    double quotient = (x - remainder) / y;
    if (remainder != 0 && (y < 0) != (remainder < 0)) {
      quotient -= 1;
    }
    if (quotient == 0) {
      return Math.copySign(0.0, x / y);
    }
    double floor = Math.floor(quotient);
    return quotient - floor > 0.5 ? floor + 1 : floor;
  }

  static @Nullable Object modulo(Object a, Object b) {
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    if (isInt(a) && isInt(b)) {
      return shrink(divmod(big(a), big(b))[1]);
    }
    return floatModulo(real(a), real(b));
  }

  private static double floatModulo(double x, double y) {
    if (y == 0) {
      throw TemplateError.zeroDivision();
    }
    double remainder = x % y;
    if (remainder == 0) {
      return Math.copySign(0.0, y);
    }
    return (remainder < 0) == (y < 0) ? remainder : remainder + y;
  }

  private static BigInteger[] divmod(BigInteger dividend, BigInteger divisor) {
    if (divisor.signum() == 0) {
      throw TemplateError.zeroDivision();
    }
    BigInteger[] result = dividend.divideAndRemainder(divisor);
    if (result[1].signum() != 0 && result[1].signum() != divisor.signum()) {
      result[0] = result[0].subtract(BigInteger.ONE);
      result[1] = result[1].add(divisor);
    }
    return result;
  }

  static @Nullable Object power(Object a, Object b) {
    if (!isNumber(a) || !isNumber(b)) {
      return null;
    }
    if (isInt(a) && isInt(b)) {
      BigInteger base = big(a);
      BigInteger exponent = big(b);
      if (exponent.signum() >= 0) {
        if (base.bitLength() <= 1 && base.abs().compareTo(BigInteger.ONE) <= 0) {
          return base.signum() < 0 && !exponent.testBit(0)
              ? (Object) 1L
              : exponent.signum() == 0 ? (Object) 1L : base.longValue();
        }
        if (exponent.bitLength() > 20 || base.bitLength() * exponent.longValue() > MAX_INT_BITS) {
          throw TemplateError.unsupported("limit_int");
        }
        return shrink(base.pow(exponent.intValue()));
      }
      if (base.signum() == 0) {
        throw TemplateError.zeroDivision();
      }
    }
    double base = real(a);
    double exponent = real(b);
    if (base == 0 && exponent < 0) {
      throw TemplateError.zeroDivision();
    }
    if (base < 0 && exponent != Math.rint(exponent) && !Double.isInfinite(base)) {
      throw TemplateError.unsupported("complex_number");
    }
    if (base == 1) {
      return 1.0;
    }
    double result = Math.pow(base, exponent);
    if (Double.isInfinite(result) && !Double.isInfinite(base) && !Double.isInfinite(exponent)) {
      throw TemplateError.overflow();
    }
    return result;
  }

  static Object negate(Object value) {
    return switch (value) {
      case Double number -> -number;
      case Long _, Boolean _, BigInteger _ -> shrink(big(value).negate());
      case Undefined undefined -> throw undefined.error();
      default -> throw TemplateError.type();
    };
  }

  static Object plus(Object value) {
    return switch (value) {
      case Double _, Long _, BigInteger _ -> value;
      case Boolean flag -> flag ? 1L : 0L;
      case Undefined undefined -> throw undefined.error();
      default -> throw TemplateError.type();
    };
  }

  /**
   * Order of two numbers; {@code Integer.MIN_VALUE} when one is not a number, which no comparison
   * accepts.
   */
  static int compare(Object a, Object b) {
    if (a instanceof Long x && b instanceof Long y) {
      return Long.compare(x, y);
    }
    if (isInt(a) && isInt(b)) {
      return big(a).compareTo(big(b));
    }
    if (a instanceof Double x && b instanceof Double y) {
      // Not Double.compare: Python has 0.0 equal to -0.0.
      return x.isNaN() || y.isNaN() ? Integer.MIN_VALUE : x < y ? -1 : x > y ? 1 : 0;
    }
    if (a instanceof Double x) {
      return compareMixed(x, big(b));
    }
    int reversed = compareMixed((Double) b, big(a));
    return reversed == Integer.MIN_VALUE ? reversed : -reversed;
  }

  private static int compareMixed(double x, BigInteger y) {
    if (Double.isNaN(x)) {
      return Integer.MIN_VALUE;
    }
    if (Double.isInfinite(x)) {
      return x > 0 ? 1 : -1;
    }
    return new BigDecimal(x).compareTo(new BigDecimal(y));
  }

  /** {@code int(value)} for a float. */
  static Object truncate(double value) {
    if (Double.isNaN(value)) {
      throw TemplateError.value();
    }
    if (Double.isInfinite(value)) {
      throw TemplateError.overflow();
    }
    return shrink(new BigDecimal(value).toBigInteger());
  }

  /** Python's {@code round(value, digits)} for a float: half to even on the exact value. */
  static double round(double value, int digits) {
    if (Double.isNaN(value) || Double.isInfinite(value) || digits > 350) {
      return value;
    }
    if (digits < -350) {
      return Math.copySign(0.0, value);
    }
    double result = new BigDecimal(value).setScale(digits, RoundingMode.HALF_EVEN).doubleValue();
    return result == 0 ? Math.copySign(0.0, value) : result;
  }

  /** Python's {@code repr} of a float: the shortest digits that read back the same. */
  static String repr(double value) {
    if (Double.isNaN(value)) {
      return "nan";
    }
    if (Double.isInfinite(value)) {
      return value > 0 ? "inf" : "-inf";
    }
    if (value == 0) {
      return 1 / value < 0 ? "-0.0" : "0.0";
    }
    BigDecimal shortest = shortest(Math.abs(value));
    String digits = shortest.unscaledValue().toString();
    int exponent = digits.length() - shortest.scale() - 1;
    StringBuilder out = new StringBuilder(24);
    if (value < 0) {
      out.append('-');
    }
    if (exponent < -4 || exponent >= 16) {
      out.append(digits.charAt(0));
      if (digits.length() > 1) {
        out.append('.').append(digits, 1, digits.length());
      }
      out.append('e').append(exponent < 0 ? '-' : '+');
      if (Math.abs(exponent) < 10) {
        out.append('0');
      }
      return out.append(Math.abs(exponent)).toString();
    }
    if (exponent < 0) {
      return out.append("0.").repeat('0', -exponent - 1).append(digits).toString();
    }
    if (digits.length() <= exponent + 1) {
      return out.append(digits).repeat('0', exponent + 1 - digits.length()).append(".0").toString();
    }
    return out.append(digits, 0, exponent + 1)
        .append('.')
        .append(digits, exponent + 1, digits.length())
        .toString();
  }

  private static BigDecimal shortest(double value) {
    BigDecimal decimal = new BigDecimal(Double.toString(value)).stripTrailingZeros();
    if (decimal.precision() == 2) {
      // Java always gives two digits where one would do, 4.9E-324 for 5e-324.
      BigDecimal one = decimal.round(new java.math.MathContext(1, RoundingMode.HALF_EVEN));
      if (one.doubleValue() == value) {
        return one.stripTrailingZeros();
      }
    }
    return decimal;
  }
}
