// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

/** How much is logged; each level includes those above it. */
public enum LogLevel {
  OFF,
  ERROR,
  WARN,
  INFO,
  DEBUG,
  TRACE
}
