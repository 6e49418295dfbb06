// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import java.nio.file.Path;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The real Envoy reads what is written here, in both notations. */
class EnvoyBootstrapIT {
  @TempDir Path folder;

  @ParameterizedTest
  @EnumSource
  void envoyTakesTheJson(Samples sample) throws Exception {
    RealEnvoy.accepts(folder, sample.bootstrap().toJson(), ".json");
  }

  @ParameterizedTest
  @EnumSource
  void envoyTakesTheYaml(Samples sample) throws Exception {
    RealEnvoy.accepts(folder, sample.bootstrap().toYaml(), ".yaml");
  }

  @ParameterizedTest
  @EnumSource
  void envoyTakesTheBootstrapThatPointsAtKvoy(XdsBootstrap.Protocol protocol) throws Exception {
    XdsBootstrap bootstrap = XdsSamples.bootstrap(protocol);
    RealEnvoy.accepts(folder, bootstrap.toJson(), ".json");
    RealEnvoy.accepts(folder, bootstrap.toYaml(), ".yaml");
  }
}
