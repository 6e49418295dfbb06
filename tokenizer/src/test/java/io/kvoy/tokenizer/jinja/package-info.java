// SPDX-License-Identifier: Apache-2.0

/**
 * The template engine: what it refuses, what it bounds. Its values are compared with Python's in
 * {@code chat}.
 */
@NullMarked
package io.kvoy.tokenizer.jinja;

import org.jspecify.annotations.NullMarked;
