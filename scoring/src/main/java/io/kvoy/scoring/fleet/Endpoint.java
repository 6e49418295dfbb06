// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import org.jspecify.annotations.Nullable;

/**
 * A network address as gateways spell it: {@code 10.0.0.7:8000} or {@code [2001:db8::7]:8000}.
 *
 * @param host IP address or host name, without brackets
 * @param port 1..65535
 */
public record Endpoint(String host, int port) {
  public Endpoint {
    if (host.isEmpty() || host.startsWith("[")) {
      throw new IllegalArgumentException("host must be a bare address or name, was '" + host + "'");
    }
    if (port < 1 || port > 65_535) {
      throw new IllegalArgumentException("port must be 1..65535, was " + port);
    }
  }

  /** Reads {@code host:port} or {@code [v6]:port}; null when the text is neither. */
  public static @Nullable Endpoint parse(String text) {
    int colon = text.lastIndexOf(':');
    if (colon <= 0 || colon == text.length() - 1) {
      return null;
    }
    String host = text.substring(0, colon);
    if (host.startsWith("[") && host.endsWith("]")) {
      host = host.substring(1, host.length() - 1);
    } else if (host.indexOf(':') >= 0) {
      return null;
    }
    int port = 0;
    for (int i = colon + 1; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c < '0' || c > '9' || port > 65_535) {
        return null;
      }
      port = port * 10 + (c - '0');
    }
    return host.isEmpty() || host.startsWith("[") || port < 1 || port > 65_535
        ? null
        : new Endpoint(host, port);
  }

  @Override
  public String toString() {
    return host.indexOf(':') >= 0 ? "[" + host + "]:" + port : host + ":" + port;
  }
}
