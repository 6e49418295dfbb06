// SPDX-License-Identifier: Apache-2.0

/** How long the server takes to be ready, and the training run that makes it shorter. */
@NullMarked
package io.kvoy.bench.startup;

import org.jspecify.annotations.NullMarked;
