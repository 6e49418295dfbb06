// SPDX-License-Identifier: Apache-2.0

/** Each command, run as a whole on captured streams. Start at {@link io.kvoy.cli.Ran}. */
@NullMarked
package io.kvoy.cli;

import org.jspecify.annotations.NullMarked;
