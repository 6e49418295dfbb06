// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

/**
 * Bounds on one JSON document from a stranger.
 *
 * @param maxDocumentBytes longest document, in bytes
 * @param maxDepth deepest nesting of arrays and objects
 * @param maxStringChars longest string or key, in UTF-16 units
 * @param maxNumberChars longest number literal; integers are held to {@link #PYTHON_MAX_INT_DIGITS}
 *     besides
 * @param maxElements most values and keys in the document, which bounds the tree's memory
 */
public record JsonLimits(
    int maxDocumentBytes, int maxDepth, int maxStringChars, int maxNumberChars, int maxElements) {

  /**
   * {@code sys.int_info.default_max_str_digits} of CPython 3.11: longer integers are a ValueError
   * there.
   */
  public static final int PYTHON_MAX_INT_DIGITS = 4300;

  /**
   * Depth 1000 is CPython's default recursion limit, so nothing that a worker can read is refused
   * here. Two million elements admit a prompt of a million token ids and, at some 90 bytes of heap
   * each in the worst mixture (objects of one field), keep a hostile body below 200 MB.
   */
  public static final JsonLimits DEFAULTS =
      new JsonLimits(64 << 20, 1000, 64 << 20, 1 << 16, 2_000_000);

  public JsonLimits {
    if (maxDocumentBytes < 1
        || maxDepth < 1
        || maxStringChars < 1
        || maxNumberChars < 1
        || maxElements < 1) {
      throw new IllegalArgumentException(
          "limits must be at least 1: "
              + maxDocumentBytes
              + ", "
              + maxDepth
              + ", "
              + maxStringChars
              + ", "
              + maxNumberChars
              + ", "
              + maxElements);
    }
  }

  /** The same bounds with another document size. */
  public JsonLimits withMaxDocumentBytes(int bytes) {
    return new JsonLimits(bytes, maxDepth, maxStringChars, maxNumberChars, maxElements);
  }
}
