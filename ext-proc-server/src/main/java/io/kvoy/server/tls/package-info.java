// SPDX-License-Identifier: Apache-2.0

/**
 * The certificate that this server shows: read from files and read again when they change, or made
 * by itself.
 *
 * <p>Start at {@link io.kvoy.server.tls.ServerIdentity}.
 */
@NullMarked
package io.kvoy.server.tls;

import org.jspecify.annotations.NullMarked;
