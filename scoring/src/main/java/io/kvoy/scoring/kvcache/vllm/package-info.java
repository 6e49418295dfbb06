// SPDX-License-Identifier: Apache-2.0

/**
 * vLLM's own block hashes, bit for bit. The index does not need them; they prove that a worker
 * hashes what we think it does. Start at {@link io.kvoy.scoring.kvcache.vllm.VllmBlockHasher}.
 */
@NullMarked
package io.kvoy.scoring.kvcache.vllm;

import org.jspecify.annotations.NullMarked;
