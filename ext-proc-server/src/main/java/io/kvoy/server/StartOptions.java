// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.config.KvoyConfig;
import java.util.function.UnaryOperator;

/**
 * What the command line adds to the configuration file.
 *
 * @param overrides applied to each configuration that is read, the first and the later ones
 * @param conformanceHooks whether the two behaviours that the conformance tests of
 *     gateway-api-inference-extension need are on, see {@link ConformanceHooks}
 */
public record StartOptions(UnaryOperator<KvoyConfig> overrides, boolean conformanceHooks) {
  /** Nothing. */
  public static final StartOptions NONE = new StartOptions(config -> config, false);
}
