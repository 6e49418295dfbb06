// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.handler;

import io.kvoy.server.DoorShare;
import io.kvoy.server.RoutingPipeline;
import io.kvoy.server.extproc.ExchangeLimits;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.metrics.ServerMeters;
import java.util.function.Supplier;

/**
 * What every call shares.
 *
 * @param limits what strangers may do; asked once per use, so that a reload is taken at once
 * @param book picked requests whose end is awaited
 */
record HandlerContext(
    RoutingPipeline pipeline,
    DoorShare share,
    Supplier<ExchangeLimits> limits,
    DispatchBook book,
    ServerMeters metrics) {}
