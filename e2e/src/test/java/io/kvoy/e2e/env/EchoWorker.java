// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import com.sun.net.httpserver.HttpServer;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

/** A worker that answers {@code name:<bytes it was sent>}, and {@code /health} as told. */
final class EchoWorker implements AutoCloseable {
  private final HttpServer server;

  EchoWorker(String name, int healthStatus) throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.ofLiteral("127.0.0.1"), 0), 0);
    server.createContext(
        "/",
        exchange -> {
          int length = exchange.getRequestBody().readAllBytes().length;
          byte[] answer = (name + ":" + length).getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(200, answer.length);
          exchange.getResponseBody().write(answer);
          exchange.close();
        });
    server.createContext(
        "/health",
        exchange -> {
          exchange.sendResponseHeaders(healthStatus, -1);
          exchange.close();
        });
    server.start();
  }

  Endpoint endpoint() {
    return new Endpoint("127.0.0.1", server.getAddress().getPort());
  }

  @Override
  public void close() {
    server.stop(0);
  }
}
