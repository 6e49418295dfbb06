// SPDX-License-Identifier: Apache-2.0

/** Tests of the cache index. Start at {@code RecordedSessionsTest}. */
@NullMarked
package io.kvoy.scoring.kvcache;

import org.jspecify.annotations.NullMarked;
