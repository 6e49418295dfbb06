// SPDX-License-Identifier: Apache-2.0

/** Tests of the worker simulator against what real vLLM 0.32 workers were seen to do. */
@NullMarked
package io.kvoy.e2e.sim;

import org.jspecify.annotations.NullMarked;
