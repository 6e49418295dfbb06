// SPDX-License-Identifier: Apache-2.0

/**
 * Bytes to {@link io.kvoy.inference.RequestParse} and errors back in the caller's own shape, one
 * class per API.
 *
 * <p>Start at {@link io.kvoy.inference.dialect.Dialects}. Called on the thread that owns the
 * exchange; no I/O.
 */
@NullMarked
package io.kvoy.inference.dialect;

import org.jspecify.annotations.NullMarked;
