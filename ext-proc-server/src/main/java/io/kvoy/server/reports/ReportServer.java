// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.reports;

import io.grpc.Server;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.ServerMeters.Report;
import io.opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest;
import io.opentelemetry.proto.collector.logs.v1.ExportLogsServiceResponse;
import io.opentelemetry.proto.collector.logs.v1.LogsServiceGrpc;
import io.opentelemetry.proto.logs.v1.LogRecord;
import io.opentelemetry.proto.logs.v1.ResourceLogs;
import io.opentelemetry.proto.logs.v1.ScopeLogs;
import java.io.IOException;
import java.net.InetSocketAddress;

/**
 * The port to which Envoy sends its access log: one record when an answer ends, and one now and
 * then while it runs. Each finds its request in the {@link DispatchBook}.
 *
 * <p>A record that finds none (of an earlier life of this process, of another replica, or too late)
 * is counted and dropped. A record that is lost costs nothing but patience: the book gives up on a
 * request whose end nobody tells.
 */
public final class ReportServer implements AutoCloseable {
  /** Envoy's batches are some ten kilobytes; this is room for a hundred of them. */
  private static final int MAX_MESSAGE_BYTES = 1 << 20;

  private final Server server;

  private ReportServer(Server server) {
    this.server = server;
  }

  /** Binds the port; throws when it is taken. */
  public static ReportServer start(
      InetSocketAddress address, DispatchBook book, ServerMeters metrics) throws IOException {
    return new ReportServer(
        NettyServerBuilder.forAddress(address)
            .directExecutor()
            .maxInboundMessageSize(MAX_MESSAGE_BYTES)
            .addService(new Logs(book, metrics))
            .build()
            .start());
  }

  /** The bound port; differs from the setting when that was 0. */
  public int port() {
    return server.getPort();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  /** Package-visible for tests without a socket. */
  static final class Logs extends LogsServiceGrpc.LogsServiceImplBase {
    private final DispatchBook book;
    private final ServerMeters metrics;

    Logs(DispatchBook book, ServerMeters metrics) {
      this.book = book;
      this.metrics = metrics;
    }

    @Override
    public void export(
        ExportLogsServiceRequest request, StreamObserver<ExportLogsServiceResponse> answer) {
      for (ResourceLogs resource : request.getResourceLogsList()) {
        for (ScopeLogs scope : resource.getScopeLogsList()) {
          for (LogRecord record : scope.getLogRecordsList()) {
            take(record);
          }
        }
      }
      answer.onNext(ExportLogsServiceResponse.getDefaultInstance());
      answer.onCompleted();
    }

    private void take(LogRecord record) {
      RecordReader.Read read = RecordReader.read(record);
      if (read.flight().isEmpty()) {
        metrics.report(Report.WITHOUT_ID);
      } else if (book.report(read.flight(), read.report())) {
        metrics.report(Report.TAKEN);
      } else {
        metrics.report(Report.UNKNOWN_ID);
      }
    }
  }
}
