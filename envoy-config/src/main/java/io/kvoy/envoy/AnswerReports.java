// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.github.xds.type.v3.TypedStruct;
import com.google.protobuf.Any;
import com.google.protobuf.ListValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.accesslog.v3.AccessLog;
import io.envoyproxy.envoy.config.accesslog.v3.AccessLogFilter;
import io.envoyproxy.envoy.data.accesslog.v3.AccessLogType;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter;
import io.envoyproxy.envoy.type.matcher.v3.MetadataMatcher;
import java.util.ArrayList;
import java.util.List;

/**
 * How Envoy tells Kvoy about answers that do not pass by it: the access log records and where their
 * values come from. Names the fields for both sides.
 *
 * <p>Kvoy puts an id of its own into dynamic metadata with each pick. Envoy sends records with that
 * id over OTLP: one at the end of each answer, and one per {@link EnvoyBootstrap#firstTokenNotice}
 * while it runs, of which the first with {@link #FIRST_BYTE} tells that the first token came.
 */
public final class AnswerReports {
  /** gRPC header of the ext_proc stream in which Envoy's configuration says how answers come. */
  public static final String WAY_HEADER = "x-kvoy-answer";

  /** {@link #WAY_HEADER}: no response phase follows here; reports tell of the answer. */
  public static final String REPORTED = "reported";

  /** {@link #WAY_HEADER}: no response phase follows here; a copy of the answer does elsewhere. */
  public static final String COPIED = "copied";

  /** {@link #WAY_HEADER}: this stream is a copy of an answer, nothing is to be answered on it. */
  public static final String COPY = "copy";

  /** Dynamic metadata namespace of Kvoy. */
  public static final String NAMESPACE = "kvoy";

  public static final String TYPE = "type";

  /** Id of the routed request: field of the record, and key in {@link #NAMESPACE}. */
  public static final String FLIGHT = "flight";

  public static final String STATUS = "status";
  public static final String FIRST_BYTE = "first_byte";
  public static final String HOST = "host";
  public static final String FLAGS = "flags";
  public static final String PROMPT_TOKENS = "prompt_tokens";
  public static final String CACHED_TOKENS = "cached_tokens";
  public static final String COMPLETION_TOKENS = "completion_tokens";

  /** {@link #TYPE} of the last record of a request. */
  public static final String END_TYPE = "DownstreamEnd";

  private static final String USAGE_NAMESPACE = "kvoy.usage";

  /** Longest time that a record waits in Envoy for others to travel with. */
  private static final String BATCH_INTERVAL = "0.020s";

  private static final int BATCH_BYTES = 32 << 10;

  private AnswerReports() {}

  /** The logger; only requests that Kvoy routed are told of. */
  static AccessLog accessLog(boolean usage) {
    List<Value> attributes = new ArrayList<>();
    attributes.add(attribute(TYPE, "%ACCESS_LOG_TYPE%"));
    attributes.add(attribute(FLIGHT, "%DYNAMIC_METADATA(" + NAMESPACE + ":" + FLIGHT + ")%"));
    attributes.add(attribute(STATUS, "%RESPONSE_CODE%"));
    // Not RESPONSE_DURATION: that ends with the headers, which vLLM sends before the first token.
    attributes.add(attribute(FIRST_BYTE, "%COMMON_DURATION(US_TX_BEG:US_RX_BODY_BEG:us)%"));
    attributes.add(attribute(HOST, "%UPSTREAM_HOST%"));
    attributes.add(attribute(FLAGS, "%RESPONSE_FLAGS%"));
    if (usage) {
      for (String field : List.of(PROMPT_TOKENS, CACHED_TOKENS, COMPLETION_TOKENS)) {
        attributes.add(
            attribute(field, "%DYNAMIC_METADATA(" + USAGE_NAMESPACE + ":" + field + ")%"));
      }
    }
    Struct config =
        struct(
            "log_name",
            text(NAMESPACE),
            "grpc_service",
            nested("envoy_grpc", nested("cluster_name", text(EnvoyBootstrap.REPORTS))),
            "buffer_flush_interval",
            text(BATCH_INTERVAL),
            "buffer_size_bytes",
            Value.newBuilder().setNumberValue(BATCH_BYTES).build(),
            // Names of log and host that no reader here looks at.
            "disable_builtin_labels",
            Value.newBuilder().setBoolValue(true).build(),
            "attributes",
            nested("values", list(attributes)));
    return AccessLog.newBuilder()
        .setName("envoy.access_loggers.open_telemetry")
        .setFilter(ofKvoy())
        .setTypedConfig(
            typed(
                "envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
                config))
        .build();
  }

  private static Value attribute(String name, String operator) {
    return nested("key", text(name), "value", nested("string_value", text(operator)));
  }

  /** For messages that java-control-plane 1.0.49 does not know as Envoy 1.40 does. */
  private static Any typed(String message, Struct config) {
    return Any.pack(
        TypedStruct.newBuilder()
            .setTypeUrl("type.googleapis.com/" + message)
            .setValue(config)
            .build());
  }

  private static AccessLogFilter ofKvoy() {
    AccessLogFilter.Builder filter = AccessLogFilter.newBuilder();
    filter
        .getAndFilterBuilder()
        .addFiltersBuilder()
        .getLogTypeFilterBuilder()
        .addTypes(AccessLogType.DownstreamPeriodic)
        .addTypes(AccessLogType.DownstreamEnd);
    MetadataMatcher.Builder routed = MetadataMatcher.newBuilder().setFilter(NAMESPACE);
    routed.addPathBuilder().setKey(FLIGHT);
    routed.getValueBuilder().setPresentMatch(true);
    var metadata = filter.getAndFilterBuilder().addFiltersBuilder().getMetadataFilterBuilder();
    metadata.setMatcher(routed).getMatchIfKeyNotFoundBuilder().setValue(false);
    return filter.build();
  }

  /**
   * Filter that reads usage out of the events of a streamed answer. Envoy 1.40 marks it as work in
   * progress.
   */
  static HttpFilter usageOfStreams() {
    Struct parser =
        struct(
            "name",
            text("envoy.content_parsers.json"),
            "typed_config",
            nested(
                "@type",
                text(
                    "type.googleapis.com/envoy.extensions.content_parsers.json.v3.JsonContentParser"),
                "rules",
                list(
                    List.of(
                        rule(PROMPT_TOKENS, "usage", "prompt_tokens"),
                        rule(COMPLETION_TOKENS, "usage", "completion_tokens"),
                        rule(CACHED_TOKENS, "usage", "prompt_tokens_details", "cached_tokens")))));
    Struct config =
        struct(
            "response_rules",
            nested("content_parser", Value.newBuilder().setStructValue(parser).build()));
    return HttpFilter.newBuilder()
        .setName("envoy.filters.http.sse_to_metadata")
        .setTypedConfig(
            typed("envoy.extensions.filters.http.sse_to_metadata.v3.SseToMetadata", config))
        .build();
  }

  private static Value rule(String to, String... path) {
    ListValue.Builder selectors = ListValue.newBuilder();
    for (String key : path) {
      selectors.addValues(nested("key", text(key)));
    }
    return nested(
        "rule",
        nested(
            "selectors",
            Value.newBuilder().setListValue(selectors).build(),
            "on_present",
            nested(
                "metadata_namespace",
                text(USAGE_NAMESPACE),
                "key",
                text(to),
                "type",
                text("NUMBER"))));
  }

  private static Value nested(Object... pairs) {
    return Value.newBuilder().setStructValue(struct(pairs)).build();
  }

  private static Struct struct(Object... pairs) {
    Struct.Builder struct = Struct.newBuilder();
    for (int i = 0; i < pairs.length; i += 2) {
      struct.putFields((String) pairs[i], (Value) pairs[i + 1]);
    }
    return struct.build();
  }

  private static Value list(List<Value> values) {
    return Value.newBuilder().setListValue(ListValue.newBuilder().addAllValues(values)).build();
  }

  private static Value text(String value) {
    return Value.newBuilder().setStringValue(value).build();
  }
}
