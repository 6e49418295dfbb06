// SPDX-License-Identifier: Apache-2.0

/**
 * Where a pool's token ids come from when they do not come from a folder on this machine: files of
 * a HuggingFace hub ({@link io.kvoy.server.tokens.HubTokenizers}) or the pool's own workers ({@link
 * io.kvoy.server.tokens.WorkerTokens}).
 *
 * <p>All network calls run on threads of this package or on virtual threads, never on those that
 * serve requests. What comes back from a hub or worker is bounded in size and time and checked.
 */
@NullMarked
package io.kvoy.server.tokens;

import org.jspecify.annotations.NullMarked;
