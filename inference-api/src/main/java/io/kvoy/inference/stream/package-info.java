// SPDX-License-Identifier: Apache-2.0

/**
 * Answers as they pass by: server-sent events, first generated token, usage, end.
 *
 * <p>Start at {@code ResponseWatcher}. One instance per exchange, fed with chunks cut anywhere; no
 * locks, no I/O.
 */
@NullMarked
package io.kvoy.inference.stream;

import org.jspecify.annotations.NullMarked;
