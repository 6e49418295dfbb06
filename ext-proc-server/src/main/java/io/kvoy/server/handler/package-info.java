// SPDX-License-Identifier: Apache-2.0
/**
 * The door for gateways that are not Envoy: the gRPC service {@code kvoy.handler.v1}, which pushes
 * a request through the same pipeline as ext_proc does.
 */
@NullMarked
package io.kvoy.server.handler;

import org.jspecify.annotations.NullMarked;
