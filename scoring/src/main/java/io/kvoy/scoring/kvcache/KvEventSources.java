// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Where a worker publishes its KV events, from its own answer to {@code GET /kv_event_sources}
 * (vLLM 0.32). Fetching is the caller's business.
 */
public final class KvEventSources {

  /** The answer comes from the network. */
  private static final int MAX_CHARS = 256 << 10;

  /** Data-parallel ranks behind one address; large deployments have tens. */
  private static final int MAX_RANKS = 256;

  private static final JsonReader READER =
      new JsonReader(JsonLimits.DEFAULTS.withMaxDocumentBytes(4 * MAX_CHARS));

  private KvEventSources() {}

  /**
   * The endpoints of one data-parallel rank.
   *
   * @param endpoint as SUB has to connect to it, empty when this rank publishes nothing
   * @param replayEndpoint as DEALER has to connect to it, empty when there is none
   * @param bufferSteps how many batches can be replayed
   * @param topic with which its messages start
   */
  public record Source(
      int rank, String endpoint, String replayEndpoint, int bufferSteps, String topic) {}

  /** Outcome of reading an answer. */
  public sealed interface Sources {}

  /** The ranks in order. */
  public record Found(List<Source> sources) implements Sources {
    public Found {
      sources = List.copyOf(sources);
    }
  }

  /** The answer is of no use. */
  public record Unreadable(String reason) implements Sources {}

  /**
   * Reads the answer of a worker.
   *
   * @param workerHost host at which the worker is reached; stands in for addresses that are no
   *     destination ({@code *}, {@code 0.0.0.0}, {@code ::}) or that mean the worker's own machine
   */
  public static Sources parse(String json, String workerHost) {
    if (json.length() > MAX_CHARS) {
      return new Unreadable("answer of " + json.length() + " characters, limit " + MAX_CHARS);
    }
    if (!(READER.read(json.getBytes(StandardCharsets.UTF_8))
        instanceof JsonRead.Document document)) {
      return new Unreadable("not JSON, or beyond the limits");
    }
    if (!(document.value() instanceof Json.Obj ranks)) {
      return new Unreadable("expected an object of ranks");
    }
    if (ranks.fields().size() > MAX_RANKS) {
      return new Unreadable("answer of " + ranks.fields().size() + " ranks, limit " + MAX_RANKS);
    }
    List<Source> sources = new ArrayList<>();
    for (Map.Entry<String, Json> entry : ranks.fields().entrySet()) {
      Integer rank = rank(entry.getKey());
      if (rank == null || !(entry.getValue() instanceof Json.Obj described)) {
        return new Unreadable("expected a rank number with an object");
      }
      Source source = source(described, rank, workerHost);
      if (source != null) {
        sources.add(source);
      }
    }
    sources.sort(Comparator.comparingInt(Source::rank));
    return new Found(sources);
  }

  private static @Nullable Source source(Json.Obj described, int rank, String workerHost) {
    boolean isEnabled =
        !(described.get("enable_kv_cache_events") instanceof Json.Bool(boolean enabled)) || enabled;
    if (!isEnabled || !text(described, "publisher", "zmq").equals("zmq")) {
      return null;
    }
    return new Source(
        rank,
        reachable(text(described, "endpoint", ""), workerHost),
        reachable(text(described, "replay_endpoint", ""), workerHost),
        described.get("buffer_steps") instanceof Json.Int(long steps)
            ? Math.clamp(steps, 0, Integer.MAX_VALUE)
            : 0,
        text(described, "topic", ""));
  }

  private static String text(Json.Obj object, String field, String fallback) {
    return object.get(field) instanceof Json.Str(String value) ? value : fallback;
  }

  private static @Nullable Integer rank(String name) {
    return name.matches("[0-9]{1,5}") ? Integer.valueOf(name) : null;
  }

  /** An endpoint with the worker's host in place of a wildcard or loopback address. */
  static String reachable(String endpoint, String workerHost) {
    int hostAt = endpoint.startsWith("tcp://") ? "tcp://".length() : -1;
    int colon = endpoint.lastIndexOf(':');
    if (hostAt < 0 || colon <= hostAt) {
      return endpoint;
    }
    String host = endpoint.substring(hostAt, colon);
    String bare =
        host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
    boolean isElsewhere =
        switch (bare) {
          case "*", "0.0.0.0", "::", "localhost", "::1", "::ffff:127.0.0.1", "::ffff:0.0.0.0" ->
              false;
          default -> !bare.startsWith("127.");
        };
    if (isElsewhere) {
      return endpoint;
    }
    String port = endpoint.substring(colon + 1);
    return "tcp://"
        + (workerHost.indexOf(':') >= 0 ? "[" + workerHost + "]" : workerHost)
        + ":"
        + port;
  }
}
