// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import io.kvoy.inference.Json;

/** Lets tests of other packages read JSON with the parser of this one. */
public final class TestJson {

  private TestJson() {}

  public static Json read(String text) {
    return TokenizerJsonParser.read(text);
  }
}
