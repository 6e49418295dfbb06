// SPDX-License-Identifier: Apache-2.0

/**
 * Java values to JSON text, for debug pages and log lines.
 *
 * <p>Start at {@link io.kvoy.server.json.JsonText}. Stateless; any thread. Request and response
 * bodies never pass here, they have {@code io.kvoy.inference}.
 */
@NullMarked
package io.kvoy.server.json;

import org.jspecify.annotations.NullMarked;
