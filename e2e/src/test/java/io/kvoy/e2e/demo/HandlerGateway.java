// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import com.google.protobuf.ByteString;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.kvoy.handler.v1.Aborted;
import io.kvoy.handler.v1.Ended;
import io.kvoy.handler.v1.FirstToken;
import io.kvoy.handler.v1.InferenceHandlerGrpc;
import io.kvoy.handler.v1.PickRequest;
import io.kvoy.handler.v1.PickResponse;
import io.kvoy.handler.v1.Picked;
import io.kvoy.handler.v1.Rejected;
import io.kvoy.handler.v1.ReportRequest;
import io.kvoy.handler.v1.RequestHead;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * The smallest gateway that uses the inference handler: takes a client's request, asks for a
 * worker, forwards, and reports. What any gateway has to do, in one page.
 */
final class HandlerGateway implements AutoCloseable {
  private static final int PIECE_BYTES = 1 << 16;
  private static final int ATTEMPTS = 3;

  private final ManagedChannel channel;
  private final HttpClient http =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();
  private final HttpServer door;

  HandlerGateway(Endpoint handler) throws IOException {
    channel = NettyChannelBuilder.forAddress(handler.host(), handler.port()).usePlaintext().build();
    door = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    door.createContext("/", this::serve);
    door.setExecutor(threads);
    door.start();
  }

  URI url() {
    return URI.create("http://127.0.0.1:" + door.getAddress().getPort());
  }

  private void serve(HttpExchange client) throws IOException {
    byte[] body = client.getRequestBody().readAllBytes();
    try (client) {
      for (int attempt = 1; ; attempt++) {
        List<PickResponse> answer = pick(client, body);
        if (answer.getFirst().hasRejected()) {
          reject(client, answer.getFirst().getRejected());
          return;
        }
        Picked picked = answer.getFirst().getPicked();
        try {
          forward(client, picked, picked.getBodyChanged() ? joined(answer) : body);
          return;
        } catch (ConnectException e) {
          report(
              ReportRequest.newBuilder()
                  .setFlight(picked.getFlight())
                  .setAborted(Aborted.newBuilder().setCause(Aborted.Cause.CAUSE_UNREACHABLE)));
          if (attempt == ATTEMPTS) {
            throw e;
          }
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Head, body in pieces, and then everything that comes back. */
  private List<PickResponse> pick(HttpExchange client, byte[] body) {
    List<PickResponse> answers = new ArrayList<>();
    CompletableFuture<List<PickResponse>> done = new CompletableFuture<>();
    StreamObserver<PickRequest> out =
        InferenceHandlerGrpc.newStub(channel)
            .pick(
                new StreamObserver<>() {
                  @Override
                  public void onNext(PickResponse answer) {
                    answers.add(answer);
                  }

                  @Override
                  public void onError(Throwable error) {
                    done.completeExceptionally(error);
                  }

                  @Override
                  public void onCompleted() {
                    done.complete(answers);
                  }
                });
    out.onNext(
        PickRequest.newBuilder()
            .setHead(
                RequestHead.newBuilder()
                    .setMethod(client.getRequestMethod())
                    .setPath(client.getRequestURI().toString()))
            .build());
    for (int from = 0; from < body.length; from += PIECE_BYTES) {
      out.onNext(
          PickRequest.newBuilder()
              .setBody(ByteString.copyFrom(body, from, Math.min(PIECE_BYTES, body.length - from)))
              .build());
    }
    out.onCompleted();
    return done.orTimeout(30, TimeUnit.SECONDS).join();
  }

  private static byte[] joined(List<PickResponse> answer) {
    return ByteString.copyFrom(
            answer.subList(1, answer.size()).stream().map(PickResponse::getBody).toList())
        .toByteArray();
  }

  private static void reject(HttpExchange client, Rejected rejected) throws IOException {
    client.getResponseHeaders().set("content-type", "application/json");
    if (rejected.getRetryAfterSeconds() > 0) {
      client
          .getResponseHeaders()
          .set("retry-after", Integer.toString(rejected.getRetryAfterSeconds()));
    }
    byte[] body = rejected.getBody().toByteArray();
    client.sendResponseHeaders(rejected.getStatus(), body.length);
    client.getResponseBody().write(body);
  }

  private void forward(HttpExchange client, Picked picked, byte[] body)
      throws IOException, InterruptedException {
    long start = System.nanoTime();
    HttpResponse<InputStream> answer =
        http.send(
            HttpRequest.newBuilder(
                    URI.create("http://" + picked.getEndpoint() + client.getRequestURI()))
                .header("content-type", "application/json")
                .method(client.getRequestMethod(), HttpRequest.BodyPublishers.ofByteArray(body))
                .build(),
            HttpResponse.BodyHandlers.ofInputStream());
    ReportRequest.Builder end = ReportRequest.newBuilder().setFlight(picked.getFlight());
    try (InputStream from = answer.body()) {
      client.getResponseHeaders().set("x-kvoy-decision-id", picked.getDecisionId());
      client.getResponseHeaders().set("x-kvoy-endpoint", picked.getEndpoint());
      client
          .getResponseHeaders()
          .set(
              "x-kvoy-predicted-cached-tokens",
              Integer.toString(picked.getPredictedCachedTokens()));
      client.sendResponseHeaders(answer.statusCode(), 0);
      pump(from, client.getResponseBody(), picked, start);
      end.setEnded(Ended.newBuilder().setStatus(answer.statusCode()));
    } catch (IOException e) {
      // Which side broke is known only where each is watched; here it was the client.
      end.setAborted(Aborted.newBuilder().setCause(Aborted.Cause.CAUSE_CLIENT_LEFT));
    }
    report(end);
  }

  private void pump(InputStream from, OutputStream to, Picked picked, long start)
      throws IOException {
    byte[] chunk = new byte[8 << 10];
    boolean isFirst = true;
    for (int n = from.read(chunk); n >= 0; n = from.read(chunk)) {
      if (isFirst && n > 0) {
        isFirst = false;
        report(
            ReportRequest.newBuilder()
                .setFlight(picked.getFlight())
                .setFirstToken(
                    FirstToken.newBuilder().setAfterMicros((System.nanoTime() - start) / 1_000)));
      }
      to.write(chunk, 0, n);
      to.flush();
    }
  }

  private void report(ReportRequest.Builder report) {
    var _ = InferenceHandlerGrpc.newBlockingStub(channel).report(report.build());
  }

  @Override
  public void close() {
    door.stop(0);
    threads.shutdownNow();
    channel.shutdownNow();
    http.close();
  }
}
