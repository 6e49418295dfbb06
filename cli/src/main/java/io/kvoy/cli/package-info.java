// SPDX-License-Identifier: Apache-2.0

/**
 * {@code kvoyctl}: what the server computes, by hand and in bulk. Start at {@link
 * io.kvoy.cli.Kvoyctl}; the commands that read JSON lines are {@link io.kvoy.cli.LineCommand}s. All
 * of it runs on the main thread. Nothing here knows the server.
 */
@NullMarked
package io.kvoy.cli;

import org.jspecify.annotations.NullMarked;
