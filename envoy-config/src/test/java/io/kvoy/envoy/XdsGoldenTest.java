// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What Envoy is told over xDS, whole; rewritten as the goldens of {@link EnvoyBootstrap} are. */
class XdsGoldenTest {
  private static final Path GOLDENS = Path.of("src/test/resources/io/kvoy/envoy");

  @ParameterizedTest
  @EnumSource(names = {"DEFAULTS", "DEMO"})
  void resourcesAreTheReviewedOnes(Samples sample) throws IOException {
    check(
        GOLDENS.resolve(sample.file().replace("bootstrap-", "xds-")),
        XdsResourcesTest.resources(sample).toJson());
  }

  @ParameterizedTest
  @EnumSource
  void smallBootstrapIsTheReviewedOne(XdsBootstrap.Protocol protocol) throws IOException {
    String word = protocol.name().toLowerCase(Locale.ROOT).replace('_', '-');
    check(
        GOLDENS.resolve("xds-bootstrap-" + word + ".json"),
        XdsSamples.bootstrap(protocol).toJson());
  }

  private static void check(Path golden, String json) throws IOException {
    if (Boolean.getBoolean("kvoy.regenerate")) {
      Files.writeString(golden, json);
    }
    assertThat(json)
        .as("differs from %s; if that is meant, run: make docs", golden)
        .isEqualTo(Files.readString(golden));
  }
}
