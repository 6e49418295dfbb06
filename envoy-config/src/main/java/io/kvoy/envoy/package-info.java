// SPDX-License-Identifier: Apache-2.0

/** The fleet as Envoy configuration. */
@NullMarked
package io.kvoy.envoy;

import org.jspecify.annotations.NullMarked;
