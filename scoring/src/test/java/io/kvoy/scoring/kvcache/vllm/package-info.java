// SPDX-License-Identifier: Apache-2.0

/** Golden vectors of vLLM's hashes. */
@NullMarked
package io.kvoy.scoring.kvcache.vllm;

import org.jspecify.annotations.NullMarked;
