// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Answers as vLLM's API server frames them: the headers around every body. Called on request
 * threads.
 */
final class Replies {
  /**
   * What vLLM 0.32.0 puts into {@code system_fingerprint}: its version and a hash of its
   * configuration.
   */
  static final String FINGERPRINT = "vllm-0.32.0-5131a70e";

  static final String VERSION = "0.32.0";

  private Replies() {}

  /** The headers that end every answer: CORS and, where switched on, the request's id. */
  static List<HttpExchange.Header> commonHeaders(
      HttpExchange exchange, SimOptions options, WorkerLife life) {
    List<HttpExchange.Header> headers = new ArrayList<>(2);
    headers.add(new HttpExchange.Header("vary", "Origin"));
    if (options.requestIdHeaders()) {
      String given = exchange.request().header("x-request-id");
      headers.add(
          new HttpExchange.Header(
              "x-request-id", given == null ? life.nextId() + life.nextId() : given));
    }
    return headers;
  }

  static void json(
      HttpExchange exchange,
      SimOptions options,
      WorkerLife life,
      int status,
      List<HttpExchange.Header> before,
      Json body)
      throws IOException {
    body(exchange, options, life, status, before, "application/json", GenerationApi.utf8(body));
  }

  static void body(
      HttpExchange exchange,
      SimOptions options,
      WorkerLife life,
      int status,
      List<HttpExchange.Header> before,
      @Nullable String contentType,
      byte[] body)
      throws IOException {
    exchange.respond(status, before, contentType, commonHeaders(exchange, options, life), body);
  }

  static void error(
      HttpExchange exchange, SimOptions options, WorkerLife life, ApiKind api, ApiError error)
      throws IOException {
    boolean anthropic = api == ApiKind.MESSAGES || api == ApiKind.COUNT_TOKENS;
    json(
        exchange,
        options,
        life,
        error.status(),
        List.of(),
        anthropic ? error.anthropic() : error.openAi());
  }

  /** The ORCA header that {@code endpoint-load-metrics-format} asks for, or null. */
  static HttpExchange.@Nullable Header loadHeader(HttpRequest request, WorkerLife life) {
    String format = request.header("endpoint-load-metrics-format");
    if (format == null) {
      return null;
    }
    double waiting = life.waiting();
    double usage = life.usage();
    return switch (format.toLowerCase(java.util.Locale.ROOT)) {
      case "text" ->
          new HttpExchange.Header(
              "endpoint-load-metrics",
              "TEXT named_metrics.num_requests_waiting=%s, named_metrics.kv_cache_usage_perc=%s"
                  .formatted(waiting, usage));
      case "json" ->
          new HttpExchange.Header(
              "endpoint-load-metrics",
              ("JSON {\"named_metrics\": {\"num_requests_waiting\": %s, \"kv_cache_usage_perc\":"
                      + " %s}}")
                  .formatted(waiting, usage));
      default -> null;
    };
  }
}
