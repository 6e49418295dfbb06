// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.grpc.ServerInterceptors;
import io.grpc.ServerServiceDefinition;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.server.RoutingPipeline;

/**
 * The gRPC service that Envoy calls: one {@link Exchange} per stream, or one {@link AnswerCopy}.
 * Called on gRPC's event loops.
 */
final class ExtProcService extends ExternalProcessorGrpc.ExternalProcessorImplBase {
  private final RoutingPipeline pipeline;
  private final ExchangeContext context;

  private ExtProcService(RoutingPipeline pipeline, ExchangeContext context) {
    this.pipeline = pipeline;
    this.context = context;
  }

  /** The service with what it needs to read from the streams' headers. */
  static ServerServiceDefinition of(RoutingPipeline pipeline, ExchangeContext context) {
    return ServerInterceptors.intercept(
        new ExtProcService(pipeline, context), new AnswerWay.Interceptor());
  }

  @Override
  public StreamObserver<ProcessingRequest> process(StreamObserver<ProcessingResponse> envoy) {
    var call = (ServerCallStreamObserver<ProcessingResponse>) envoy;
    AnswerWay way = AnswerWay.ofCurrentStream();
    return switch (way) {
      case COPY -> new AnswerCopy(context.book(), context.metrics(), call);
      case IN_LINE, REPORTED, COPIED -> {
        // One message at a time, the next one asked for once our answers are out (see
        // Exchange.takeNext); the first one gRPC requests itself.
        call.disableAutoRequest();
        Exchange exchange = new Exchange(pipeline, context, call, way);
        call.request(1);
        yield exchange;
      }
    };
  }
}
