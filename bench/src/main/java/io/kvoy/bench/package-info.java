// SPDX-License-Identifier: Apache-2.0

/** JMH benchmarks and load runs. */
@NullMarked
package io.kvoy.bench;

import org.jspecify.annotations.NullMarked;
