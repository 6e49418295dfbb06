// SPDX-License-Identifier: Apache-2.0

/**
 * The HTTP pages for operators: alive, ready, metrics, and what the server knows.
 *
 * <p>Start at {@link io.kvoy.server.admin.AdminServer} and the sources it shows, {@link
 * io.kvoy.server.admin.AdminPages}. Read only, and of no use to clients; bound to loopback unless
 * configured otherwise. Requests run on virtual threads; the sources are called there and must be
 * safe for that.
 */
@NullMarked
package io.kvoy.server.admin;

import org.jspecify.annotations.NullMarked;
