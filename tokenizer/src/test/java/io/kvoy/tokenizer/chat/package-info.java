// SPDX-License-Identifier: Apache-2.0

/** Chat rendering against vectors recorded from vLLM 0.32. */
@NullMarked
package io.kvoy.tokenizer.chat;

import org.jspecify.annotations.NullMarked;
