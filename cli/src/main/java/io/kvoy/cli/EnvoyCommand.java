// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import picocli.CommandLine.Command;

/** {@code kvoyctl envoy}: the group of commands that write configurations for Envoy. */
@Command(
    name = "envoy",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    synopsisSubcommandLabel = "COMMAND",
    description = "Writes configurations for Envoy.")
final class EnvoyCommand {}
