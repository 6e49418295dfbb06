// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.protobuf.ByteString;
import io.envoyproxy.envoy.config.core.v3.HeaderMap;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpHeaders;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.ProtocolConfiguration;
import io.grpc.ManagedChannel;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.kvoy.server.PipelineRig;
import io.kvoy.server.extproc.ExchangeLimits;
import io.kvoy.server.extproc.ExtProcServer;
import io.kvoy.server.feedback.DispatchBook;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.cert.X509Certificate;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.RSAPrivateCrtKey;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ServerIdentityTest {
  @TempDir Path folder;

  private final List<ServerIdentity.Reload> reloads = new ArrayList<>();

  private ServerIdentity start(Optional<Path> files) throws IOException {
    return ServerIdentity.start(files, InstantSource.system(), reloads::add);
  }

  /** Believes everybody and remembers whom it saw. */
  private static final class Witness implements X509TrustManager {
    volatile @Nullable X509Certificate seen;

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) {
      seen = chain[0];
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }

  private static X509Certificate shown(int port) throws Exception {
    Witness witness = new Witness();
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, new TrustManager[] {witness}, null);
    try (SSLSocket socket =
        (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", port)) {
      var parameters = socket.getSSLParameters();
      parameters.setApplicationProtocols(new String[] {"h2"});
      socket.setSSLParameters(parameters);
      socket.startHandshake();
      assertThat(socket.getApplicationProtocol())
          .as("gateways insist on h2 by ALPN")
          .isEqualTo("h2");
    }
    return Objects.requireNonNull(witness.seen);
  }

  /** The ext_proc door of a real server. */
  private static ExtProcServer door(PipelineRig rig, ServerIdentity identity) throws IOException {
    ExchangeLimits limits =
        new ExchangeLimits(1 << 20, 64 << 10, Duration.ofSeconds(30), Duration.ofSeconds(5), 100);
    return ExtProcServer.start(
        new ExtProcServer.Settings(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
            Optional.empty(),
            Optional.of(identity.sslContext()),
            () -> limits,
            1,
            16,
            false),
        rig.pipeline,
        new DispatchBook(() -> 1, System::nanoTime, () -> Duration.ofMinutes(1)),
        rig.metrics.server());
  }

  @Test
  void HA_03_newCertificateIsShownToNewConnectionsAndOpenStreamsGoOn() throws Exception {
    CertificateFolder files = new CertificateFolder(folder);
    files.renew("first.example");
    ServerIdentity identity = start(Optional.of(folder));
    try (PipelineRig rig = new PipelineRig();
        ExtProcServer door = door(rig, identity)) {
      Witness witness = new Witness();
      ManagedChannel channel =
          NettyChannelBuilder.forAddress("127.0.0.1", door.port())
              .overrideAuthority("first.example")
              .sslContext(GrpcSslContexts.forClient().trustManager(witness).build())
              .build();
      BlockingQueue<ProcessingResponse> answers = new LinkedBlockingQueue<>();
      StreamObserver<ProcessingRequest> open =
          ExternalProcessorGrpc.newStub(channel).process(collecting(answers));
      open.onNext(headers());
      assertThat(answers.poll(10, TimeUnit.SECONDS)).isNotNull();
      X509Certificate first = Objects.requireNonNull(witness.seen);
      assertThat(first.getSubjectAlternativeNames().toString()).contains("first.example");

      files.renew("second.example");
      identity.doWork();

      X509Certificate second = shown(door.port());
      assertThat(second.getSubjectAlternativeNames().toString()).contains("second.example");
      assertThat(second).isNotEqualTo(first);
      assertThat(reloads).containsExactly(ServerIdentity.Reload.OK);
      open.onNext(body());
      ProcessingResponse routed = answers.poll(10, TimeUnit.SECONDS);
      assertThat(routed).isNotNull();
      assertThat(routed.getRequestBody().getResponse().getHeaderMutation().toString())
          .contains("x-gateway-destination-endpoint");
      channel.shutdownNow();
    }
  }

  private static StreamObserver<ProcessingResponse> collecting(
      BlockingQueue<ProcessingResponse> answers) {
    return new StreamObserver<>() {
      @Override
      public void onNext(ProcessingResponse answer) {
        answers.add(answer);
      }

      @Override
      public void onError(Throwable error) {}

      @Override
      public void onCompleted() {}
    };
  }

  private static ProcessingRequest headers() {
    HeaderMap.Builder map = HeaderMap.newBuilder();
    for (String[] pair : new String[][] {{":path", "/v1/chat/completions"}, {":method", "POST"}}) {
      map.addHeaders(
          HeaderValue.newBuilder().setKey(pair[0]).setRawValue(ByteString.copyFromUtf8(pair[1])));
    }
    return ProcessingRequest.newBuilder()
        .setProtocolConfig(
            ProtocolConfiguration.newBuilder().setRequestBodyMode(BodySendMode.BUFFERED))
        .setRequestHeaders(HttpHeaders.newBuilder().setHeaders(map))
        .build();
  }

  private static ProcessingRequest body() {
    return ProcessingRequest.newBuilder()
        .setRequestBody(
            HttpBody.newBuilder()
                .setBody(
                    ByteString.copyFromUtf8(
                        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"))
                .setEndOfStream(true))
        .build();
  }

  @Test
  void withoutFilesItVouchesForItself() throws Exception {
    ServerIdentity identity = start(Optional.empty());
    try (PipelineRig rig = new PipelineRig();
        ExtProcServer door = door(rig, identity)) {
      X509Certificate shown = shown(door.port());
      shown.verify(shown.getPublicKey());
      shown.checkValidity();
      assertThat(shown.getSubjectAlternativeNames().toString()).contains("localhost");
      assertThat(shown.getExtendedKeyUsage()).containsExactly("1.3.6.1.5.5.7.3.1");
      assertThat(shown.getKeyUsage()).startsWith(true);
      assertThat(identity.validUntil()).isAfter(Instant.now().plus(Duration.ofDays(3_000)));
    }
  }

  @Test
  void filesThatDoNotBelongTogetherChangeNothingUntilTheyDo() throws Exception {
    CertificateFolder files = new CertificateFolder(folder);
    files.renew("first.example");
    String firstKey = Files.readString(folder.resolve("tls.key"));
    ServerIdentity identity = start(Optional.of(folder));
    Instant until = identity.validUntil();
    Identity fresh = SelfSigned.identity("x", List.of("y"), Instant.now().plusSeconds(3600));

    files.swap(CertificateFolder.pem(fresh.own()), firstKey);
    identity.doWork();
    identity.doWork();
    assertThat(reloads).as("told once").containsExactly(ServerIdentity.Reload.REJECTED);
    assertThat(identity.validUntil()).isEqualTo(until);

    files.swap(
        CertificateFolder.pem(fresh.own()),
        CertificateFolder.pem("PRIVATE KEY", fresh.key().getEncoded()));
    identity.doWork();
    assertThat(reloads).endsWith(ServerIdentity.Reload.OK);
    assertThat(identity.validUntil()).isAfter(until);
  }

  @Test
  void filesThatVanishChangeNothing() throws Exception {
    CertificateFolder files = new CertificateFolder(folder);
    files.renew("first.example");
    ServerIdentity identity = start(Optional.of(folder));
    Files.delete(folder.resolve("tls.key"));

    identity.doWork();

    assertThat(reloads).containsExactly(ServerIdentity.Reload.REJECTED);
    assertThat(identity.validUntil()).isAfter(Instant.now());
  }

  @Test
  void startWithoutUsableFilesSaysWhatIsMissing() throws Exception {
    assertThatThrownBy(() -> start(Optional.of(folder)))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("tls.crt");
    Files.writeString(folder.resolve("tls.crt"), "no certificate");
    Files.writeString(folder.resolve("tls.key"), "no key");
    assertThatThrownBy(() -> start(Optional.of(folder)))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("no certificate to show");
  }

  @Test
  void keysInTheOlderNotationsAreRead() throws Exception {
    Identity made = SelfSigned.identity("x", List.of("y"), Instant.now());
    ECPrivateKey key = (ECPrivateKey) made.key();
    byte[] secret = new byte[32];
    byte[] digits = key.getS().toByteArray();
    int length = Math.min(32, digits.length);
    System.arraycopy(digits, digits.length - length, secret, 32 - length, length);
    String sec1 =
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
            + CertificateFolder.pem(
                "EC PRIVATE KEY",
                Der.sequence(
                    Der.integer(1),
                    Der.octets(secret),
                    Der.explicit(0, Der.oid("1.2.840.10045.3.1.7"))));
    assertThat(PemFolder.identity(content(CertificateFolder.pem(made.own()), sec1)).own())
        .isEqualTo(made.own());
    assertThatThrownBy(
            () ->
                PemFolder.identity(
                    content(
                        CertificateFolder.pem(made.own()),
                        CertificateFolder.pem(
                            "ENCRYPTED PRIVATE KEY", "x".getBytes(StandardCharsets.UTF_8)))))
        .hasMessageContaining("encrypted");

    KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA");
    generator.initialize(2048);
    KeyPair pair = generator.generateKeyPair();
    RSAPrivateCrtKey rsa = (RSAPrivateCrtKey) pair.getPrivate();
    byte[] pkcs1 =
        Der.sequence(
            Der.integer(0),
            Der.integer(rsa.getModulus()),
            Der.integer(rsa.getPublicExponent()),
            Der.integer(rsa.getPrivateExponent()),
            Der.integer(rsa.getPrimeP()),
            Der.integer(rsa.getPrimeQ()),
            Der.integer(rsa.getPrimeExponentP()),
            Der.integer(rsa.getPrimeExponentQ()),
            Der.integer(rsa.getCrtCoefficient()));
    assertThatThrownBy(
            () ->
                PemFolder.identity(
                    content(
                        CertificateFolder.pem(made.own()),
                        CertificateFolder.pem("RSA PRIVATE KEY", pkcs1))))
        .as("read, and found to be another's")
        .hasMessageContaining("is not the key of the first certificate");
  }

  private static PemFolder.Content content(String certificate, String key) {
    return new PemFolder.Content(
        certificate.getBytes(StandardCharsets.UTF_8), key.getBytes(StandardCharsets.UTF_8), "");
  }

  @Test
  void numbersAreWrittenAsTheStandardSays() {
    assertThat(Der.integer(BigInteger.valueOf(128))).containsExactly(2, 2, 0, -128);
    assertThat(Der.oid("1.2.840.10045.3.1.7"))
        .containsExactly(6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7);
    assertThat(Der.octets(new byte[200])).startsWith(4, 0x81, 200);
    assertThat(Der.octets(new byte[70_000])).startsWith(4, 0x83, 1, 0x11, 0x70);
    assertThat(
            new String(Der.time(Instant.parse("2049-12-31T23:59:59Z")), StandardCharsets.US_ASCII))
        .endsWith("491231235959Z");
    assertThat(
            new String(Der.time(Instant.parse("2050-01-01T00:00:00Z")), StandardCharsets.US_ASCII))
        .endsWith("20500101000000Z");
  }
}
