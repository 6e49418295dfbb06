// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.List;

/**
 * Where the configuration of a running server stands; for debug pages and gauges.
 *
 * @param inForce the file that is in force
 * @param loadedAtNanos monotonic time at which it came into force
 * @param reloads right changes taken so far
 * @param rejections wrong changes refused so far
 * @param problems why the file on disk is refused; empty when it is the one in force
 */
public record ConfigStatus(
    KvoyConfigFile inForce,
    long loadedAtNanos,
    long reloads,
    long rejections,
    List<ConfigProblem> problems) {
  public ConfigStatus {
    problems = List.copyOf(problems);
  }
}
