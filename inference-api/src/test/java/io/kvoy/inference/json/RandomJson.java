// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import java.util.Random;

/** JSON texts with odd whitespace, escapes, repeated keys and numbers, from a seed. */
final class RandomJson {
  private static final String[] KEYS = {
    "model", "stream", "a", "\\u0061", "messages", "é", "🙂", "x y", "", "\\\"q\\\\"
  };
  private static final String[] SCALARS = {
    "0",
    "-1",
    "12.50",
    "1e-7",
    "1E+16",
    "123456789012345678901234567890",
    "true",
    "false",
    "null",
    "\"\"",
    "\"plain\"",
    "\"\\\"}],{[\\\\\"",
    "\"\\ud83d\\ude00\"",
    "\"日本語\"",
    "NaN"
  };

  private RandomJson() {}

  static String objectText(Random random) {
    return space(random) + object(random, 0) + space(random);
  }

  private static String object(Random random, int depth) {
    StringBuilder out = new StringBuilder("{").append(space(random));
    int fields = random.nextInt(6);
    for (int i = 0; i < fields; i++) {
      out.append(i == 0 ? "" : "," + space(random))
          .append('"')
          .append(KEYS[random.nextInt(KEYS.length)])
          .append('"')
          .append(space(random))
          .append(':')
          .append(space(random))
          .append(value(random, depth + 1))
          .append(space(random));
    }
    return out.append('}').toString();
  }

  private static String value(Random random, int depth) {
    int kind = depth > 4 ? 2 : random.nextInt(4);
    if (kind == 0) {
      return object(random, depth);
    }
    if (kind == 1) {
      StringBuilder out = new StringBuilder("[").append(space(random));
      int items = random.nextInt(4);
      for (int i = 0; i < items; i++) {
        out.append(i == 0 ? "" : ",").append(space(random)).append(value(random, depth + 1));
      }
      return out.append(space(random)).append(']').toString();
    }
    return SCALARS[random.nextInt(SCALARS.length)];
  }

  private static String space(Random random) {
    return switch (random.nextInt(5)) {
      case 0 -> " ";
      case 1 -> "\n\t";
      default -> "";
    };
  }
}
