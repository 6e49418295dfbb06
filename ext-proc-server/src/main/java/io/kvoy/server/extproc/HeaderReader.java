// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import com.google.protobuf.ListValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpHeaders;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.kvoy.envoy.ControlHeaders;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.GatewayHeaders;
import io.kvoy.server.RequestHead;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/** Reads what routing needs from header messages and their metadata. Stateless. */
final class HeaderReader {
  private static final String FILTER_ATTRIBUTES = "envoy.filters.http.ext_proc";
  private static final int MAX_REQUEST_ID_CHARS = 128;

  private HeaderReader() {}

  static RequestHead requestHead(ProcessingRequest message) {
    String method = "";
    String path = "";
    String requestId = "";
    String contentEncoding = "";
    boolean upgrade = false;
    for (HeaderValue header : message.getRequestHeaders().getHeaders().getHeadersList()) {
      switch (header.getKey()) {
        case ":method" -> method = value(header);
        case ":path" -> path = value(header);
        case "x-request-id" -> requestId = value(header);
        case "content-encoding" -> contentEncoding = value(header).toLowerCase(Locale.ROOT).strip();
        case "upgrade" -> upgrade = true;
        default -> {}
      }
    }
    ApiKind api = method.equals("POST") && !upgrade ? Dialects.ofPath(path) : ApiKind.OTHER;
    if (requestId.isEmpty() || requestId.length() > MAX_REQUEST_ID_CHARS) {
      requestId = UUID.randomUUID().toString();
    }
    return new RequestHead(method, path, api, requestId, contentEncoding, subset(message));
  }

  /**
   * Whether no body will ever come although the headers do not end the stream (upgrade, CONNECT).
   */
  static boolean isUpgrade(HttpHeaders headers) {
    for (HeaderValue header : headers.getHeaders().getHeadersList()) {
      if (header.getKey().equals("upgrade")
          || (header.getKey().equals(":method") && value(header).equals("CONNECT"))) {
        return true;
      }
    }
    return false;
  }

  static int status(HttpHeaders headers) {
    String status = find(headers, ":status");
    return status != null
            && status.length() == 3
            && status.chars().allMatch(c -> c >= '0' && c <= '9')
        ? Integer.parseInt(status)
        : 0;
  }

  /**
   * The endpoint that really served, which after a retry is not the one picked: the proxy's {@code
   * served} metadata first, then the upstream address attribute; null when it told neither.
   */
  static @Nullable Endpoint servedBy(ProcessingRequest message) {
    Struct lb =
        message
            .getMetadataContext()
            .getFilterMetadataOrDefault(
                ControlHeaders.METADATA_NAMESPACE, Struct.getDefaultInstance());
    String served =
        lb.getFieldsOrDefault(GatewayHeaders.SERVED, Value.getDefaultInstance()).getStringValue();
    if (served.isEmpty()) {
      served =
          message
              .getAttributesOrDefault(FILTER_ATTRIBUTES, Struct.getDefaultInstance())
              .getFieldsOrDefault("upstream.address", Value.getDefaultInstance())
              .getStringValue();
    }
    return served.isEmpty() ? null : Endpoint.parse(served);
  }

  private static @Nullable List<Endpoint> subset(ProcessingRequest message) {
    Struct hint =
        message
            .getMetadataContext()
            .getFilterMetadataOrDefault(
                ControlHeaders.SUBSET_NAMESPACE, Struct.getDefaultInstance());
    if (!hint.containsFields(GatewayHeaders.SUBSET)) {
      return null;
    }
    Value value = hint.getFieldsOrThrow(GatewayHeaders.SUBSET);
    List<Endpoint> allowed = new ArrayList<>();
    if (value.getKindCase() == Value.KindCase.LIST_VALUE) {
      ListValue list = value.getListValue();
      for (Value item : list.getValuesList()) {
        addEndpoint(allowed, item.getStringValue());
      }
    } else {
      for (String item : value.getStringValue().split(",", -1)) {
        addEndpoint(allowed, item.strip());
      }
    }
    return allowed;
  }

  private static void addEndpoint(List<Endpoint> to, String text) {
    Endpoint endpoint = Endpoint.parse(text);
    if (endpoint != null) {
      to.add(endpoint);
    }
  }

  /** A header's value, null when absent. */
  static @Nullable String find(HttpHeaders headers, String key) {
    for (HeaderValue header : headers.getHeaders().getHeadersList()) {
      if (header.getKey().equals(key)) {
        return value(header);
      }
    }
    return null;
  }

  private static String value(HeaderValue header) {
    return header.getRawValue().isEmpty() ? header.getValue() : header.getRawValue().toStringUtf8();
  }
}
