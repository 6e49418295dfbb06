// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Loopback ports on which nobody listens. Thread-safe. */
public final class Ports {
  private static final int MAX_ATTEMPTS = 1_000;
  private static final Set<Integer> GIVEN = ConcurrentHashMap.newKeySet();

  private Ports() {}

  /**
   * A free TCP port, never the same twice in this process. Somebody else may take it before its
   * user binds it; the kernel hands out such ports in turn, so that is rare.
   */
  public static int free() {
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      int port = unused();
      if (GIVEN.add(port)) {
        return port;
      }
    }
    throw new IllegalStateException("no free loopback port that was not given out yet");
  }

  private static int unused() {
    try (ServerSocket socket = new ServerSocket()) {
      socket.setReuseAddress(true);
      socket.bind(new InetSocketAddress(InetAddress.ofLiteral("127.0.0.1"), 0));
      return socket.getLocalPort();
    } catch (IOException refused) {
      throw new UncheckedIOException("the system gives no loopback port", refused);
    }
  }
}
