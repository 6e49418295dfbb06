// SPDX-License-Identifier: Apache-2.0

/**
 * What every worker's KV cache holds: event decoding, block keys, the prefix index. Start at {@code
 * PrefixIndex}.
 */
@NullMarked
package io.kvoy.scoring.kvcache;

import org.jspecify.annotations.NullMarked;
