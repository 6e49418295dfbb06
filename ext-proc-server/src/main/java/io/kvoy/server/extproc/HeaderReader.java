// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import com.google.protobuf.ListValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpHeaders;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.kvoy.envoy.AnswerReports;
import io.kvoy.envoy.ControlHeaders;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.GatewayHeaders;
import io.kvoy.server.RequestHead;
import io.kvoy.server.Wishes;
import io.kvoy.server.feedback.AnswerReport.Progress;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Reads what routing needs from header messages and their metadata. Stateless. */
final class HeaderReader {
  private static final String FILTER_ATTRIBUTES = "envoy.filters.http.ext_proc";

  private HeaderReader() {}

  static RequestHead requestHead(ProcessingRequest message) {
    String method = "";
    String path = "";
    String requestId = "";
    String contentEncoding = "";
    boolean upgrade = false;
    int ttftMillis = 0;
    int ttftMillisByOldName = 0;
    String session = "";
    int sessionRank = ControlHeaders.SESSION.size();
    String objective = "";
    String objectiveByOldName = "";
    String fairnessId = "";
    String fairnessIdByOldName = "";
    for (HeaderValue header : message.getRequestHeaders().getHeaders().getHeadersList()) {
      switch (header.getKey()) {
        case ":method" -> method = value(header);
        case ":path" -> path = value(header);
        case "x-request-id" -> requestId = value(header);
        case "content-encoding" -> contentEncoding = value(header).toLowerCase(Locale.ROOT).strip();
        case "upgrade" -> upgrade = true;
        case ControlHeaders.SLO_TTFT -> ttftMillis = Wishes.millis(value(header));
        case ControlHeaders.SLO_TTFT_OLD -> ttftMillisByOldName = Wishes.millis(value(header));
        case ControlHeaders.OBJECTIVE -> objective = value(header);
        case ControlHeaders.OBJECTIVE_OLD -> objectiveByOldName = value(header);
        case ControlHeaders.FAIRNESS_ID -> fairnessId = value(header);
        case ControlHeaders.FAIRNESS_ID_OLD -> fairnessIdByOldName = value(header);
        default -> {
          int rank = ControlHeaders.SESSION.indexOf(header.getKey());
          if (rank >= 0 && rank < sessionRank) {
            session = value(header);
            sessionRank = rank;
          }
        }
      }
    }
    ApiKind api = method.equals("POST") && !upgrade ? Dialects.ofPath(path) : ApiKind.OTHER;
    Wishes wishes =
        new Wishes(
            ttftMillis == 0 ? ttftMillisByOldName : ttftMillis,
            List.of(),
            session,
            objective.isEmpty() ? objectiveByOldName : objective,
            fairnessId.isEmpty() ? fairnessIdByOldName : fairnessId);
    return new RequestHead(
        method,
        path,
        api,
        RequestHead.requestIdOr(requestId),
        contentEncoding,
        subset(message),
        wishes,
        false);
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
      served = attribute(message, "upstream.address");
    }
    return served.isEmpty() ? null : Endpoint.parse(served);
  }

  /**
   * Whose answer the headers begin, by Envoy's {@code response.code_details}: a worker's own, or
   * one that Envoy wrote because it had none. {@link #servedBy} cannot tell: with every connection
   * refused it names the worker that was tried last (ran on Envoy 1.40). Where the attribute is not
   * configured the answer counts as a worker's.
   */
  static Progress answered(ProcessingRequest message) {
    String details = attribute(message, "response.code_details");
    if (details.isEmpty() || details.equals("via_upstream")) {
      return Progress.RUNNING;
    }
    if (details.contains("connection_failure") || details.contains("connection_timeout")) {
      return Progress.UNREACHABLE;
    }
    // upstream_reset_…{overflow} is Envoy's own limit; the other resets, and running out of time,
    // are a worker's doing.
    boolean tried =
        (details.startsWith("upstream_") && !details.contains("overflow"))
            || details.contains("response_timeout");
    return tried ? Progress.BROKEN : Progress.NOT_TRIED;
  }

  private static String attribute(ProcessingRequest message, String name) {
    return message
        .getAttributesOrDefault(FILTER_ATTRIBUTES, Struct.getDefaultInstance())
        .getFieldsOrDefault(name, Value.getDefaultInstance())
        .getStringValue();
  }

  /** Id under which the answer's request is in the book; empty when the proxy told none. */
  static String flight(ProcessingRequest message) {
    return message
        .getMetadataContext()
        .getFilterMetadataOrDefault(AnswerReports.NAMESPACE, Struct.getDefaultInstance())
        .getFieldsOrDefault(AnswerReports.FLIGHT, Value.getDefaultInstance())
        .getStringValue();
  }

  /** The headers of this request that must not reach a worker as the client wrote them. */
  static List<String> headersToRemove(HttpHeaders headers) {
    List<String> found = List.of();
    for (HeaderValue header : headers.getHeaders().getHeadersList()) {
      if (GatewayHeaders.removedFromRequests(header.getKey())) {
        if (found.isEmpty()) {
          found = new ArrayList<>();
        }
        found.add(header.getKey());
      }
    }
    return found;
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
