// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.RequestParse;
import io.kvoy.inference.json.SpliceableBody;
import org.jspecify.annotations.Nullable;

/**
 * A body read once: what it says and where its fields lie.
 *
 * @param parse what it says
 * @param body for rewrites; present whenever {@code parse} is {@link RequestParse.Parsed}
 */
public record ParsedBody(RequestParse parse, @Nullable SpliceableBody body) {}
