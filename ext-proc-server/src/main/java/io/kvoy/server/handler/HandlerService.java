// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.handler;

import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.handler.v1.InferenceHandlerGrpc;
import io.kvoy.handler.v1.PickRequest;
import io.kvoy.handler.v1.PickResponse;
import io.kvoy.handler.v1.ReportRequest;
import io.kvoy.handler.v1.ReportResponse;
import io.kvoy.server.metrics.ServerMeters.Report;

/** The gRPC service: one {@link PickCall} per pick. Called on gRPC's event loops. */
final class HandlerService extends InferenceHandlerGrpc.InferenceHandlerImplBase {
  private final HandlerContext context;

  HandlerService(HandlerContext context) {
    this.context = context;
  }

  @Override
  public StreamObserver<PickRequest> pick(StreamObserver<PickResponse> caller) {
    var call = (ServerCallStreamObserver<PickResponse>) caller;
    // One message at a time, so that a fast sender cannot make us hoard beyond the limits.
    call.disableAutoRequest();
    PickCall pick = new PickCall(context, call);
    call.request(1);
    return pick;
  }

  @Override
  public void report(ReportRequest request, StreamObserver<ReportResponse> caller) {
    ReportReader.Read read;
    try {
      read = ReportReader.read(request);
    } catch (IllegalArgumentException wrong) {
      caller.onError(
          Status.INVALID_ARGUMENT.withDescription(wrong.getMessage()).asRuntimeException());
      return;
    }
    boolean known =
        context
            .book()
            .tell(request.getFlight(), dispatch -> dispatch.reported(read.completed(dispatch)));
    context.metrics().report(known ? Report.TAKEN : Report.UNKNOWN_ID);
    caller.onNext(ReportResponse.newBuilder().setKnown(known).build());
    caller.onCompleted();
  }
}
