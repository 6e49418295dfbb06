// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.github.xds.type.v3.TypedStruct;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageOrBuilder;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import com.google.protobuf.util.JsonFormat;
import io.envoyproxy.envoy.extensions.access_loggers.file.v3.FileAccessLog;
import io.envoyproxy.envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor;
import io.envoyproxy.envoy.extensions.filters.http.header_mutation.v3.HeaderMutation;
import io.envoyproxy.envoy.extensions.filters.http.router.v3.Router;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.envoyproxy.envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest;
import io.envoyproxy.envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin;
import io.envoyproxy.envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig;
import io.envoyproxy.envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate;
import io.envoyproxy.envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext;
import io.envoyproxy.envoy.extensions.upstreams.http.v3.HttpProtocolOptions;
import java.util.Map;
import java.util.regex.Pattern;

/** Envoy's messages as text, with the field names of Envoy's documentation (snake case). */
final class EnvoyText {
  /**
   * Every message that {@link Listeners} and {@link Clusters} pack into an Any; JSON spells them
   * out.
   */
  private static final JsonFormat.TypeRegistry PACKED =
      JsonFormat.TypeRegistry.newBuilder()
          .add(HttpConnectionManager.getDescriptor())
          .add(HeaderMutation.getDescriptor())
          .add(ExternalProcessor.getDescriptor())
          .add(Router.getDescriptor())
          .add(FileAccessLog.getDescriptor())
          .add(PreviousHostsPredicate.getDescriptor())
          .add(DownstreamConnectionsConfig.getDescriptor())
          .add(HttpProtocolOptions.getDescriptor())
          .add(UpstreamTlsContext.getDescriptor())
          .add(LeastRequest.getDescriptor())
          .add(RoundRobin.getDescriptor())
          .add(OverrideHostPolicy.DESCRIPTOR)
          .add(TypedStruct.getDescriptor())
          .add(ExpressionFilter.getDescriptor())
          .build();

  /** Keys that YAML reads as the string they are, without quotes. */
  private static final Pattern BARE_KEY = Pattern.compile("[a-z_][a-zA-Z0-9_.-]*");

  private EnvoyText() {}

  static String json(MessageOrBuilder bootstrap) {
    try {
      return JsonFormat.printer()
              .usingTypeRegistry(PACKED)
              .preservingProtoFieldNames()
              .sortingMapKeys()
              .print(bootstrap)
          + "\n";
    } catch (InvalidProtocolBufferException unregistered) {
      throw new IllegalStateException("a packed message is missing in the registry", unregistered);
    }
  }

  static String yaml(MessageOrBuilder bootstrap) {
    Struct.Builder tree = Struct.newBuilder();
    try {
      JsonFormat.parser().merge(json(bootstrap), tree);
    } catch (InvalidProtocolBufferException broken) {
      throw new IllegalStateException("printed JSON does not parse", broken);
    }
    StringBuilder out = new StringBuilder();
    mapping(tree.build(), 0, out);
    return out.toString();
  }

  /** Writes {@code key: value} lines; the caller has already indented the first one. */
  private static void mapping(Struct struct, int indent, StringBuilder out) {
    boolean first = true;
    for (Map.Entry<String, Value> entry : struct.getFieldsMap().entrySet()) {
      if (!first) {
        out.repeat(' ', indent);
      }
      first = false;
      String key = entry.getKey();
      out.append(BARE_KEY.matcher(key).matches() ? key : quoted(key)).append(':');
      child(entry.getValue(), indent, out);
    }
  }

  private static void child(Value value, int indent, StringBuilder out) {
    switch (value.getKindCase()) {
      case STRUCT_VALUE -> {
        if (value.getStructValue().getFieldsCount() == 0) {
          out.append(" {}\n");
        } else {
          out.append('\n').repeat(' ', indent + 2);
          mapping(value.getStructValue(), indent + 2, out);
        }
      }
      case LIST_VALUE -> {
        if (value.getListValue().getValuesCount() == 0) {
          out.append(" []\n");
        } else {
          out.append('\n');
          for (Value element : value.getListValue().getValuesList()) {
            out.repeat(' ', indent).append('-');
            if (element.getKindCase() == Value.KindCase.STRUCT_VALUE
                && element.getStructValue().getFieldsCount() > 0) {
              out.append(' ');
              mapping(element.getStructValue(), indent + 2, out);
            } else {
              child(element, indent + 2, out);
            }
          }
        }
      }
      case STRING_VALUE -> out.append(' ').append(quoted(value.getStringValue())).append('\n');
      case BOOL_VALUE -> out.append(' ').append(value.getBoolValue()).append('\n');
      case NUMBER_VALUE -> out.append(' ').append(number(value.getNumberValue())).append('\n');
      case NULL_VALUE, KIND_NOT_SET -> out.append(" null\n");
    }
  }

  private static String number(double value) {
    return value == Math.rint(value) && Math.abs(value) < 1e15
        ? Long.toString((long) value)
        : Double.toString(value);
  }

  /** Double-quoted YAML takes the escapes of JSON. */
  private static String quoted(String text) {
    StringBuilder out = new StringBuilder(text.length() + 2).append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        default -> {
          if (c < ' ') {
            out.append(String.format("\\u%04x", (int) c));
          } else {
            out.append(c);
          }
        }
      }
    }
    return out.append('"').toString();
  }
}
