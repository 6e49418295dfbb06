// SPDX-License-Identifier: Apache-2.0

/**
 * The configuration file {@code kvoy.yaml}: what may stand in it, how it is read, and how a change
 * reaches a running server.
 *
 * <p>Start at {@link io.kvoy.server.config.ConfigLoader}: a path goes in, a {@link
 * io.kvoy.server.config.ConfigResult} comes out. The record tree below {@link
 * io.kvoy.server.config.KvoyConfig} and {@link io.kvoy.server.config.ModelPool} <em>is</em> the
 * schema: each component carries a {@link io.kvoy.server.config.Setting} with its default, range
 * and words, and {@code docs/configuration.md} is written from those. To add a setting, add one
 * component with its annotation and run the documentation test in its regenerating mode.
 *
 * <p>Called once at start by the wiring, later by the thread of {@link
 * io.kvoy.server.config.ConfigWatcher}, and by the command line without any server. Nothing here
 * opens a socket or knows what the settings are for.
 */
@NullMarked
package io.kvoy.server.config;

import org.jspecify.annotations.NullMarked;
