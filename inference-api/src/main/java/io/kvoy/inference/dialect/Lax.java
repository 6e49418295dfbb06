// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.Json;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The conversions that vLLM's request models make silently: pydantic 2 in its lax mode. */
final class Lax {
  /**
   * Decimal text that pydantic takes for an integer: sign, single underscores between digits, a
   * fraction of zeros.
   */
  private static final Pattern INTEGER_TEXT = Pattern.compile("[+-]?\\d+(_\\d+)*(\\.0*)?");

  /** Longest integer text looked at; anything longer is far above every clamp. */
  private static final int MAX_INTEGER_TEXT_CHARS = 64;

  private Lax() {}

  /** A boolean as pydantic reads it, or null when it would refuse. */
  static @Nullable Boolean bool(Json value) {
    return switch (value) {
      case Json.Bool(boolean b) -> b;
      case Json.Int(long n) -> n == 0 ? Boolean.FALSE : n == 1 ? Boolean.TRUE : null;
      case Json.Real(double d) -> d == 0 ? Boolean.FALSE : d == 1 ? Boolean.TRUE : null;
      case Json.Str(String s) ->
          switch (s.toLowerCase(Locale.ROOT)) {
            case "1", "true", "t", "yes", "y", "on" -> Boolean.TRUE;
            case "0", "false", "f", "no", "n", "off" -> Boolean.FALSE;
            default -> null;
          };
      case Json.BigInt _, Json.Null _, Json.Arr _, Json.Obj _ -> null;
    };
  }

  /**
   * An integer as pydantic reads it, clamped to {@code [low, high]}; empty when it would refuse.
   */
  static OptionalLong integer(Json value, long low, long high) {
    return switch (value) {
      case Json.Int(long n) -> OptionalLong.of(Math.clamp(n, low, high));
      case Json.BigInt(BigInteger n) -> OptionalLong.of(n.signum() < 0 ? low : high);
      case Json.Real(double d) ->
          Double.isFinite(d) && d == Math.rint(d)
              ? OptionalLong.of(Math.clamp((long) d, low, high))
              : OptionalLong.empty();
      case Json.Bool(boolean b) -> OptionalLong.of(Math.clamp(b ? 1L : 0L, low, high));
      case Json.Str(String s) -> integerText(s.strip(), low, high);
      case Json.Null _, Json.Arr _, Json.Obj _ -> OptionalLong.empty();
    };
  }

  private static OptionalLong integerText(String text, long low, long high) {
    if (text.length() > MAX_INTEGER_TEXT_CHARS || !INTEGER_TEXT.matcher(text).matches()) {
      return OptionalLong.empty();
    }
    BigInteger n = new BigDecimal(text.replace("_", "")).toBigInteger();
    BigInteger clamped = n.max(BigInteger.valueOf(low)).min(BigInteger.valueOf(high));
    return OptionalLong.of(clamped.longValue());
  }
}
