// SPDX-License-Identifier: Apache-2.0

/**
 * JSON as vLLM reads and writes it: bounded reading with Python's rules, exact splicing of bodies,
 * Python's text form.
 *
 * <p>Start at {@link io.kvoy.inference.json.JsonReader} (bytes to {@link io.kvoy.inference.Json} or
 * a failure value), then {@link io.kvoy.inference.json.SpliceableBody} (change one field, keep
 * every other byte) and {@link io.kvoy.inference.json.PythonJson} (equal to {@code json.dumps}).
 * All stateless or immutable, callable from any thread. Nothing here knows what an inference
 * request is.
 */
@NullMarked
package io.kvoy.inference.json;

import org.jspecify.annotations.NullMarked;
