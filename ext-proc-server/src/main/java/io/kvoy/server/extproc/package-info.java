// SPDX-License-Identifier: Apache-2.0

/**
 * The ext_proc door: Envoy's external processing protocol in front of the {@link
 * io.kvoy.server.RoutingPipeline}.
 *
 * <p>Start at {@link io.kvoy.server.extproc.Exchange}: one per HTTP request, with the table of its
 * phases. {@link io.kvoy.server.extproc.EnvoyMessages} holds every message that is ever sent. gRPC
 * calls come on Netty event loops, which must not block: reading and tokenizing runs on the
 * decision threads.
 */
@NullMarked
package io.kvoy.server.extproc;

import org.jspecify.annotations.NullMarked;
