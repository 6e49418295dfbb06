// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/** Python's {@code None}. */
enum None {
  NONE
}
