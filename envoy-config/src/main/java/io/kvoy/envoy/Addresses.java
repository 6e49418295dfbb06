// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import io.envoyproxy.envoy.config.core.v3.Address;
import io.kvoy.scoring.fleet.Endpoint;
import java.net.InetAddress;

/** Endpoints as Envoy addresses. */
final class Addresses {
  private Addresses() {}

  /** Whether {@code host} is an IPv4 or IPv6 address; never asks a name server. */
  static boolean isIpLiteral(String host) {
    try {
      InetAddress.ofLiteral(host);
      return true;
    } catch (IllegalArgumentException notAnAddress) {
      return false;
    }
  }

  static Address socket(Endpoint endpoint) {
    Address.Builder address = Address.newBuilder();
    address.getSocketAddressBuilder().setAddress(endpoint.host()).setPortValue(endpoint.port());
    return address.build();
  }
}
