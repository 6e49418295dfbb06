// SPDX-License-Identifier: Apache-2.0

/**
 * What Kvoy says that workers hold, against what they say themselves; start at {@code
 * CacheTruthVllmIT}.
 */
@NullMarked
package io.kvoy.e2e.kv;

import org.jspecify.annotations.NullMarked;
