// SPDX-License-Identifier: Apache-2.0

/**
 * The door for what Envoy tells about answers that did not pass by us: access log records over
 * OTLP/gRPC.
 *
 * <p>Start at {@link io.kvoy.server.reports.ReportServer}. {@link
 * io.kvoy.server.reports.RecordReader} reads one record; which fields Envoy is asked for stands in
 * {@link io.kvoy.envoy.AnswerReports}. Called on gRPC's event loops, which must not block.
 */
@NullMarked
package io.kvoy.server.reports;

import org.jspecify.annotations.NullMarked;
