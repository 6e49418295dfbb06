// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import com.google.protobuf.ByteString;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.service.ext_proc.v3.BodyMutation;
import io.envoyproxy.envoy.service.ext_proc.v3.BodyResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.CommonResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.envoyproxy.envoy.service.ext_proc.v3.HeaderMutation;
import io.envoyproxy.envoy.service.ext_proc.v3.HeadersResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.StreamedBodyResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.TrailersResponse;
import io.grpc.BindableService;
import io.grpc.Server;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.StreamObserver;
import io.kvoy.envoy.ControlHeaders;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.jspecify.annotations.Nullable;

/**
 * The least that speaks the endpoint picker protocol: names the endpoint it was told to, and notes
 * what Envoy reports on response headers. It shows what a bootstrap makes of a pick, whatever
 * picks.
 */
final class ScriptedPicker implements AutoCloseable {
  /**
   * Who served, by both ways in which Envoy can tell, and whose answer it is; empty where it does
   * not.
   */
  record Report(String servedMetadata, String upstreamAddress, String codeDetails) {}

  /** Where the pick is written. */
  enum Way {
    METADATA,
    HEADER
  }

  final BlockingQueue<Report> reports = new LinkedBlockingQueue<>();
  private volatile String pick = "";
  private volatile Way way = Way.METADATA;
  private final Server server;

  ScriptedPicker() throws IOException {
    HealthStatusManager health = new HealthStatusManager();
    health.setStatus(ExternalProcessorGrpc.SERVICE_NAME, ServingStatus.SERVING);
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.ofLiteral("127.0.0.1"), 0))
            .addService(service())
            .addService(health.getHealthService())
            .build()
            .start();
  }

  Endpoint endpoint() {
    return new Endpoint("127.0.0.1", server.getPort());
  }

  void pick(String endpoints, Way by) {
    pick = endpoints;
    way = by;
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  private BindableService service() {
    return new ExternalProcessorGrpc.ExternalProcessorImplBase() {
      @Override
      public StreamObserver<ProcessingRequest> process(StreamObserver<ProcessingResponse> out) {
        return new Exchange(out);
      }
    };
  }

  /** One request; called by one gRPC thread at a time. */
  private final class Exchange implements StreamObserver<ProcessingRequest> {
    private final StreamObserver<ProcessingResponse> out;
    private final List<HttpBody> held = new ArrayList<>();
    private @Nullable BodySendMode requestMode;
    private @Nullable BodySendMode responseMode;

    Exchange(StreamObserver<ProcessingResponse> out) {
      this.out = out;
    }

    @Override
    public void onNext(ProcessingRequest message) {
      if (message.hasProtocolConfig()) {
        requestMode = message.getProtocolConfig().getRequestBodyMode();
        responseMode = message.getProtocolConfig().getResponseBodyMode();
      }
      boolean duplexRequest = requestMode == BodySendMode.FULL_DUPLEX_STREAMED;
      switch (message.getRequestCase()) {
        case REQUEST_HEADERS -> {
          if (!duplexRequest || message.getRequestHeaders().getEndOfStream()) {
            out.onNext(picked());
          }
        }
        case REQUEST_BODY -> {
          if (!duplexRequest) {
            out.onNext(
                ProcessingResponse.newBuilder()
                    .setRequestBody(BodyResponse.getDefaultInstance())
                    .build());
            return;
          }
          held.add(message.getRequestBody());
          if (message.getRequestBody().getEndOfStream()) {
            out.onNext(picked());
            for (HttpBody body : held) {
              out.onNext(ProcessingResponse.newBuilder().setRequestBody(same(body)).build());
            }
          }
        }
        case RESPONSE_HEADERS -> {
          reports.add(report(message));
          out.onNext(
              ProcessingResponse.newBuilder()
                  .setResponseHeaders(HeadersResponse.getDefaultInstance())
                  .build());
        }
        case RESPONSE_BODY ->
            out.onNext(
                ProcessingResponse.newBuilder()
                    .setResponseBody(
                        responseMode == BodySendMode.FULL_DUPLEX_STREAMED
                            ? same(message.getResponseBody())
                            : BodyResponse.getDefaultInstance())
                    .build());
        case RESPONSE_TRAILERS ->
            out.onNext(
                ProcessingResponse.newBuilder()
                    .setResponseTrailers(TrailersResponse.getDefaultInstance())
                    .build());
        case REQUEST_TRAILERS, REQUEST_NOT_SET ->
            throw new IllegalStateException(
                "the tests send no such message: " + message.getRequestCase());
      }
    }

    @Override
    public void onError(Throwable normalEndOfAnExchange) {}

    @Override
    public void onCompleted() {
      out.onCompleted();
    }

    private ProcessingResponse picked() {
      ProcessingResponse.Builder answer = ProcessingResponse.newBuilder();
      CommonResponse.Builder common = answer.getRequestHeadersBuilder().getResponseBuilder();
      if (way == Way.METADATA) {
        Struct byName =
            Struct.newBuilder()
                .putFields(
                    ControlHeaders.DESTINATION_ENDPOINT,
                    Value.newBuilder().setStringValue(pick).build())
                .build();
        answer.setDynamicMetadata(
            Struct.newBuilder()
                .putFields(
                    ControlHeaders.METADATA_NAMESPACE,
                    Value.newBuilder().setStructValue(byName).build()));
      } else {
        HeaderValue header =
            HeaderValue.newBuilder()
                .setKey(ControlHeaders.DESTINATION_ENDPOINT)
                .setRawValue(ByteString.copyFromUtf8(pick))
                .build();
        common.setHeaderMutation(
            HeaderMutation.newBuilder()
                .addSetHeaders(HeaderValueOption.newBuilder().setHeader(header)));
      }
      return answer.build();
    }

    private static BodyResponse same(HttpBody body) {
      StreamedBodyResponse streamed =
          StreamedBodyResponse.newBuilder()
              .setBody(body.getBody())
              .setEndOfStream(body.getEndOfStream())
              .build();
      return BodyResponse.newBuilder()
          .setResponse(
              CommonResponse.newBuilder()
                  .setBodyMutation(BodyMutation.newBuilder().setStreamedResponse(streamed)))
          .build();
    }

    private static Report report(ProcessingRequest message) {
      String served =
          message
              .getMetadataContext()
              .getFilterMetadataOrDefault(
                  ControlHeaders.METADATA_NAMESPACE, Struct.getDefaultInstance())
              .getFieldsOrDefault(
                  ControlHeaders.DESTINATION_ENDPOINT_SERVED, Value.getDefaultInstance())
              .getStringValue();
      return new Report(
          served,
          attribute(message, "upstream.address"),
          attribute(message, "response.code_details"));
    }

    private static String attribute(ProcessingRequest message, String name) {
      return message
          .getAttributesOrDefault("envoy.filters.http.ext_proc", Struct.getDefaultInstance())
          .getFieldsOrDefault(name, Value.getDefaultInstance())
          .getStringValue();
    }
  }
}
