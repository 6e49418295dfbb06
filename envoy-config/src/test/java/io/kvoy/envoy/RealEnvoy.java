// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The Envoy binary that {@code make tools} fetched, asked whether it takes a configuration. */
final class RealEnvoy {
  private static final long VALIDATION_SECONDS = 60;

  private RealEnvoy() {}

  /**
   * Fails the test with Envoy's own words when it refuses {@code text}; {@code suffix} is .json or
   * .yaml.
   */
  static void accepts(Path folder, String text, String suffix)
      throws IOException, InterruptedException {
    Path config = Files.writeString(folder.resolve("envoy" + suffix), text);
    Path log = folder.resolve("envoy.log");
    Process envoy =
        new ProcessBuilder(
                binary().toString(),
                "--mode",
                "validate",
                "-c",
                config.toString(),
                "--log-level",
                "warn")
            .redirectErrorStream(true)
            .redirectOutput(log.toFile())
            .start();
    boolean ended = envoy.waitFor(VALIDATION_SECONDS, TimeUnit.SECONDS);
    if (!ended) {
      envoy.destroyForcibly();
    }
    String words = Files.readString(log);
    assertThat(ended)
        .as("validation ends within %d s; it said: %s", VALIDATION_SECONDS, words)
        .isTrue();
    assertThat(envoy.exitValue()).as(words).isZero();
    assertThat(words)
        .as("deprecated or ignored fields are warned about")
        .doesNotContainIgnoringCase("deprecated");
  }

  private static Path binary() {
    String own = System.getenv("KVOY_ENVOY");
    Path binary = own != null ? Path.of(own) : local().resolve("envoy-venv/bin/envoy");
    assertThat(binary).as("the Envoy binary; run: make tools").isExecutable();
    return binary;
  }

  private static Path local() {
    String set = System.getProperty("KVOY_LOCAL", System.getenv("KVOY_LOCAL"));
    if (set != null) {
      return Path.of(set);
    }
    return repository().resolve(".local");
  }

  /** The repository's root, above the folder that the tests run in. */
  static Path repository() {
    for (@Nullable Path folder = Path.of("").toAbsolutePath();
        folder != null;
        folder = folder.getParent()) {
      if (Files.exists(folder.resolve("Makefile"))) {
        return folder;
      }
    }
    throw new AssertionError(
        "not inside the repository: no folder with a Makefile above the working directory");
  }
}
