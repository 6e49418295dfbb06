// SPDX-License-Identifier: Apache-2.0

/** kvoyctl, the command line. */
@NullMarked
package io.kvoy.cli;

import org.jspecify.annotations.NullMarked;
