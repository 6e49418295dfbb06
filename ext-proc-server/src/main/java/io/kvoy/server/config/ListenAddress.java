// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.scoring.fleet.Endpoint;
import org.jspecify.annotations.Nullable;

/**
 * Where one door of the server listens, written {@code 9002}, {@code 0.0.0.0:9002}, {@code
 * [::1]:9002} or {@code off}.
 */
public sealed interface ListenAddress {

  /**
   * A TCP socket.
   *
   * @param host bare address or name to bind; empty as long as {@code listen.address} is to be used
   * @param port 0..65535, 0 lets the system choose
   */
  record Tcp(String host, int port) implements ListenAddress {
    public Tcp {
      if (port < 0 || port > 65_535) {
        throw new IllegalArgumentException("port must be 0..65535, was " + port);
      }
    }

    @Override
    public String toString() {
      if (host.isEmpty()) {
        return Integer.toString(port);
      }
      return host.indexOf(':') >= 0 ? "[" + host + "]:" + port : host + ":" + port;
    }
  }

  /** The door stays shut. */
  enum Off implements ListenAddress {
    OFF;

    @Override
    public String toString() {
      return "off";
    }
  }

  /** Reads the written form; null when the text is none of its spellings. */
  static @Nullable ListenAddress parse(String text) {
    if (text.equals("off")) {
      return Off.OFF;
    }
    if (text.matches("[0-9]{1,5}")) {
      int port = Integer.parseInt(text);
      return port > 65_535 ? null : new Tcp("", port);
    }
    if (text.endsWith(":0")) {
      Endpoint anyPort = Endpoint.parse(text.substring(0, text.length() - 1) + "1");
      return anyPort == null ? null : new Tcp(anyPort.host(), 0);
    }
    Endpoint endpoint = Endpoint.parse(text);
    return endpoint == null ? null : new Tcp(endpoint.host(), endpoint.port());
  }

  /** This address with {@code host} put in where none was written. */
  default ListenAddress orHost(String host) {
    return this instanceof Tcp(String own, int port) && own.isEmpty() ? new Tcp(host, port) : this;
  }
}
