// SPDX-License-Identifier: Apache-2.0

/**
 * What the process says on standard error: one JSON object a line.
 *
 * <p>Start at {@link io.kvoy.server.log.JsonLineEncoder} for the form of a line and {@link
 * io.kvoy.server.log.OncePer} for failures that repeat. Callers log through SLF4J with a constant
 * message and the values as key-value pairs:
 *
 * <pre>{@code
 * log.atWarn().addKeyValue("worker", worker.name()).log("metrics scrape failed");
 * }</pre>
 *
 * <p>Nothing that a client sent is ever a value. Values are cut, and messages of foreign exceptions
 * are left out, so that a mistake elsewhere does not put a prompt into the log.
 */
@NullMarked
package io.kvoy.server.log;

import org.jspecify.annotations.NullMarked;
