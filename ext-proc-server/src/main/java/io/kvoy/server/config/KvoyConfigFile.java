// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.nio.file.Path;
import java.util.List;

/**
 * Everything that one configuration file says, checked as a whole. Immutable; a reload makes a new
 * one.
 *
 * @param source the file, absolute
 * @param contentHash SHA-256 of its bytes in hex; equal hashes mean nothing changed
 * @param config the process settings, all defaults when the file has none
 * @param pools at least one, in file order
 */
public record KvoyConfigFile(
    Path source, String contentHash, KvoyConfig config, List<ModelPool> pools) {
  public KvoyConfigFile {
    pools = List.copyOf(pools);
  }

  /** The same file with other process settings, as the command line wants them. */
  public KvoyConfigFile with(KvoyConfig other) {
    return new KvoyConfigFile(source, contentHash, other, pools);
  }
}
