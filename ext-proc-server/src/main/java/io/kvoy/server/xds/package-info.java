// SPDX-License-Identifier: Apache-2.0

/**
 * The control plane: Envoys that connect here get listeners, routes, clusters and the fleet's
 * endpoints, and every change of them.
 *
 * <p>Start at {@link io.kvoy.server.xds.XdsServer}. What is sent is made in {@code io.kvoy.envoy};
 * here it is decided when, and remembered what Envoys said to it. Everything runs on one thread, so
 * that no two changes can overtake each other on a stream.
 */
@NullMarked
package io.kvoy.server.xds;

import org.jspecify.annotations.NullMarked;
