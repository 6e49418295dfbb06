// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.Iterator;

/**
 * Something that can be walked once: what {@code map}, {@code select}, {@code batch} and their like
 * return. Lazy, as in Python, where a test may see what a loop's body has changed meanwhile.
 */
record PyIterator(Iterator<Object> items) {}
