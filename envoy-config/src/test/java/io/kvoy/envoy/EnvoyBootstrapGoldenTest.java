// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * What Envoy is told, whole, so that every change of it is seen in review. {@code make docs} (or
 * {@code -Dkvoy.regenerate=true}) rewrites the files.
 */
class EnvoyBootstrapGoldenTest {
  private static final Path GOLDENS = Path.of("src/test/resources/io/kvoy/envoy");

  @ParameterizedTest
  @EnumSource
  void bootstrapIsTheReviewedOne(Samples sample) throws IOException {
    Path file = GOLDENS.resolve(sample.file());
    String json = sample.bootstrap().toJson();
    if (Boolean.getBoolean("kvoy.regenerate")) {
      Files.createDirectories(GOLDENS);
      Files.writeString(file, json);
    }

    assertThat(json)
        .as("differs from %s; if that is meant, run: make docs", file)
        .isEqualTo(Files.readString(file));
  }
}
