// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Kept inputs of this module's tests. */
public final class TestFiles {
  private TestFiles() {}

  public static byte[] bytes(String path) {
    try (InputStream in = TestFiles.class.getResourceAsStream("/" + path)) {
      if (in == null) {
        throw new IllegalArgumentException("no test file " + path);
      }
      return in.readAllBytes();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static String text(String path) {
    return new String(bytes(path), StandardCharsets.UTF_8);
  }

  public static List<String> lines(String path) {
    return text(path).lines().filter(line -> !line.isBlank()).toList();
  }
}
