// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import io.kvoy.scoring.fleet.Endpoint;
import java.util.Optional;

/** Small bootstraps; each is a golden file and is shown to the real Envoy. */
final class XdsSamples {
  private XdsSamples() {}

  static XdsBootstrap bootstrap(XdsBootstrap.Protocol protocol) {
    return new XdsBootstrap(
        new Endpoint("127.0.0.1", 9901),
        new Endpoint("127.0.0.1", 9004),
        "envoy-0",
        protocol,
        Optional.empty());
  }
}
