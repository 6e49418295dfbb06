// SPDX-License-Identifier: Apache-2.0

/**
 * Kvoy behind a real Envoy with workers that compute nothing: what happens to bytes, headers and
 * bookings. Start at {@link io.kvoy.e2e.envoy.Rig}.
 */
@NullMarked
package io.kvoy.e2e.envoy;

import org.jspecify.annotations.NullMarked;
