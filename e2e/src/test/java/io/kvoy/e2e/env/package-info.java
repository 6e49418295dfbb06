// SPDX-License-Identifier: Apache-2.0

/** Tests of real processes; start at {@code EnvoyProcessIT}. */
@NullMarked
package io.kvoy.e2e.env;

import org.jspecify.annotations.NullMarked;
