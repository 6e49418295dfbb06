// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJsonReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * Commands to a simulated worker over HTTP, with JSON bodies. Each answers with the worker's
 * status.
 *
 * <table>
 * <caption>Commands</caption>
 * <tr><td>{@code GET /sim/status}</td><td>what it is doing</td></tr>
 * <tr><td>{@code POST /sim/pause}, {@code /sim/resume}</td><td>the engine stalls, and goes on</td></tr>
 * <tr><td>{@code POST /sim/slowdown}</td><td>{@code {"factor":2.5}}: steps take that many times as long</td></tr>
 * <tr><td>{@code POST /sim/drop-events}</td><td>{@code {"count":3,"replay":false}}: the next batches are lost; with
 * {@code replay} a replay does not bring them back</td></tr>
 * <tr><td>{@code POST /sim/fail}</td><td>{@code {"count":3,"status":503}}, or {@code {"count":1,"kind":"stall",
 * "after_tokens":5}} with kinds {@code status}, {@code error_event}, {@code stall}, {@code cut}, {@code reset}; count 0
 * forgets what was planned</td></tr>
 * <tr><td>{@code POST /sim/crash}, {@code /sim/start}, {@code /sim/restart}</td><td>lives; after a crash only the control
 * port listens</td></tr>
 * </table>
 *
 * <p>Called on request threads.
 */
final class ControlApi {
  private final SimWorker worker;
  private final boolean onApiPort;

  /**
   * @param onApiPort whether the connection that carries a command dies with the worker; then a
   *     command that ends its life is carried out after it was answered
   */
  ControlApi(SimWorker worker, boolean onApiPort) {
    this.worker = worker;
    this.onApiPort = onApiPort;
  }

  /** Carries out a command; false when the path is none of these. */
  boolean handle(HttpExchange exchange) throws IOException {
    HttpRequest request = exchange.request();
    if (request.path().equals("/sim/status")) {
      status(exchange);
      return true;
    }
    if (!request.path().startsWith("/sim/") || !request.method().equals("POST")) {
      return false;
    }
    BodyFields fields;
    if (request.body().length == 0) {
      fields = new BodyFields(Json.Obj.of(Map.of()));
    } else if (PythonJsonReader.read(new String(request.body(), StandardCharsets.UTF_8))
        instanceof PythonJsonReader.Outcome.Read(Json.Obj object)) {
      fields = new BodyFields(object);
    } else {
      refuse(exchange, "the body must be a JSON object");
      return true;
    }
    try {
      return run(exchange, request.path().substring("/sim/".length()), fields);
    } catch (IllegalArgumentException | IllegalStateException e) {
      refuse(exchange, String.valueOf(e.getMessage()));
      return true;
    }
  }

  private boolean run(HttpExchange exchange, String command, BodyFields fields) throws IOException {
    switch (command) {
      case "pause" -> worker.pause();
      case "resume" -> worker.resume();
      case "slowdown" -> {
        Double factor = fields.number("factor");
        if (factor == null) {
          throw new IllegalArgumentException("factor must be a number");
        }
        worker.slowdown(factor);
      }
      case "drop-events" -> worker.dropEventBatches(count(fields), fields.flag("replay"));
      case "fail" -> fail(fields);
      case "start" -> worker.up();
      case "crash" -> {
        return ending(exchange, worker::crash);
      }
      case "restart" -> {
        return ending(exchange, worker::restart);
      }
      default -> {
        return false;
      }
    }
    status(exchange);
    return true;
  }

  private boolean ending(HttpExchange exchange, Runnable end) throws IOException {
    if (onApiPort) {
      status(exchange);
      Thread.ofVirtual().start(end);
    } else {
      end.run();
      status(exchange);
    }
    return true;
  }

  private void fail(BodyFields fields) {
    int count = count(fields);
    if (count == 0) {
      worker.faults().clear();
      return;
    }
    String kind = Objects.requireNonNullElse(fields.text("kind"), "status");
    Long status = fields.integer("status");
    Long after = fields.integer("after_tokens");
    worker
        .faults()
        .add(
            count,
            new FaultPlan.Fault(
                FaultPlan.Kind.valueOf(kind.toUpperCase(Locale.ROOT)),
                status == null ? 500 : Math.toIntExact(status),
                after == null ? 0 : Math.toIntExact(after)));
  }

  private static int count(BodyFields fields) {
    Long count = fields.integer("count");
    if (count == null || count < 0 || count > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("count must be a number of requests or batches");
    }
    return count.intValue();
  }

  private void status(HttpExchange exchange) throws IOException {
    SimWorker.Status status = worker.status();
    reply(
        exchange,
        200,
        JsonText.obj(
            "up",
            status.up(),
            "paused",
            status.paused(),
            "running_requests",
            status.runningRequests(),
            "waiting_requests",
            status.waitingRequests(),
            "cache_usage",
            status.cacheUsage(),
            "next_event_seq",
            status.nextEventSeq(),
            "connections",
            status.connections(),
            "slowdown",
            status.slowdown(),
            "planned_faults",
            status.plannedFaults()));
  }

  static void notFound(HttpExchange exchange) throws IOException {
    reply(exchange, 404, JsonText.obj("detail", "Not Found"));
  }

  private static void refuse(HttpExchange exchange, String why) throws IOException {
    reply(exchange, 400, JsonText.obj("detail", why));
  }

  private static void reply(HttpExchange exchange, int status, Json body) throws IOException {
    exchange.respond(status, List.of(), "application/json", List.of(), GenerationApi.utf8(body));
  }
}
