// SPDX-License-Identifier: Apache-2.0

/** Worker simulator, demo and end-to-end tests. */
@NullMarked
package io.kvoy.e2e;

import org.jspecify.annotations.NullMarked;
