// SPDX-License-Identifier: Apache-2.0

/** The server process. Start at {@code RoutingPipeline}, the page to read first. */
@NullMarked
package io.kvoy.server;

import org.jspecify.annotations.NullMarked;
