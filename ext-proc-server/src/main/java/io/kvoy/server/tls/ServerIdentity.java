// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import io.grpc.netty.GrpcSslContexts;
import io.grpc.util.AdvancedTlsX509KeyManager;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The certificate in use, and its exchange while connections are open.
 *
 * <p>{@link #doWork} looks at the files' content through their paths, so that it sees whichever way
 * they are exchanged, links that Kubernetes swaps included, and a certificate renewed for the same
 * key. (grpc-java's own watch of files compares times and wants both files to change.) New
 * connections get what is in use when they begin; open ones go on. Files that cannot be read, or of
 * which one is newer than the other, change nothing and are looked at again.
 *
 * <p>{@code doWork} is for one thread; the rest for any.
 */
public final class ServerIdentity {
  private static final Logger LOG = LoggerFactory.getLogger(ServerIdentity.class);

  /** Until then a client that has been here before may go on without being shown the new one. */
  private static final long SESSION_SECONDS = 60;

  /** What became of changed files. */
  public enum Reload {
    OK,
    REJECTED
  }

  private final AdvancedTlsX509KeyManager keys = new AdvancedTlsX509KeyManager();
  private final @Nullable PemFolder folder;
  private final Consumer<Reload> onReload;

  /** Replaced by the thread that looks, read by gauges. */
  private volatile X509Certificate shown;

  /** Content that was last judged; only the thread that looks uses it. */
  private String judgedHash = "";

  private String lastProblem = "";

  private ServerIdentity(
      Identity first, String hash, @Nullable PemFolder folder, Consumer<Reload> onReload) {
    this.folder = folder;
    this.onReload = onReload;
    this.judgedHash = hash;
    this.shown = first.own();
    use(first);
  }

  /**
   * Takes what is in the folder, or makes a self-signed certificate when there is none.
   *
   * @param folder with {@code tls.crt} and {@code tls.key}
   * @throws IOException when the folder's files cannot be used; the message says why
   */
  public static ServerIdentity start(
      Optional<Path> folder, InstantSource clock, Consumer<Reload> onReload) throws IOException {
    try {
      if (folder.isEmpty()) {
        Identity own = SelfSigned.identity("kvoy", ownNames(), clock.instant());
        LOG.info("tls_self_signed names={} until={}", ownNames(), own.own().getNotAfter());
        return new ServerIdentity(own, "", null, onReload);
      }
      PemFolder files = new PemFolder(folder.get());
      PemFolder.Content content = files.read();
      Identity first = PemFolder.identity(content);
      LOG.info("tls_loaded folder={} until={}", folder.get(), first.own().getNotAfter());
      return new ServerIdentity(first, content.hash(), files, onReload);
    } catch (GeneralSecurityException e) {
      throw new IOException(
          "no certificate to show" + folder.map(f -> " in " + f).orElse("") + ": " + e.getMessage(),
          e);
    }
  }

  private static List<String> ownNames() {
    List<String> names = new ArrayList<>(List.of("kvoy", "localhost"));
    try {
      String host = InetAddress.getLocalHost().getHostName();
      if (host.matches("[A-Za-z0-9.-]{1,253}") && !names.contains(host)) {
        names.add(host);
      }
    } catch (UnknownHostException _) {
      // A machine without a name of its own.
    }
    return names;
  }

  /** What a gRPC server needs to show this identity; HTTP/2 is agreed on by ALPN. */
  public SslContext sslContext() throws IOException {
    return GrpcSslContexts.configure(
            SslContextBuilder.forServer(keys).sessionTimeout(SESSION_SECONDS))
        .build();
  }

  /** When the certificate in use ends. */
  public Instant validUntil() {
    return shown.getNotAfter().toInstant();
  }

  /** Looks at the files once. */
  public void doWork() {
    if (folder == null) {
      return;
    }
    try {
      PemFolder.Content content = folder.read();
      if (content.hash().equals(judgedHash)) {
        return;
      }
      Identity fresh = PemFolder.identity(content);
      use(fresh);
      judgedHash = content.hash();
      lastProblem = "";
      onReload.accept(Reload.OK);
      LOG.info("tls_reloaded folder={} until={}", folder.folder(), fresh.own().getNotAfter());
    } catch (IOException | GeneralSecurityException e) {
      String problem = e.getClass().getSimpleName() + " " + e.getMessage();
      // Told once: half a change is over at the next look.
      if (!problem.equals(lastProblem)) {
        lastProblem = problem;
        onReload.accept(Reload.REJECTED);
        LOG.warn("tls_kept folder={} problem=\"{}\"", folder.folder(), problem);
      }
    }
  }

  private void use(Identity identity) {
    keys.updateIdentityCredentials(
        identity.chain().toArray(X509Certificate[]::new), identity.key());
    shown = identity.own();
  }

  /** Seconds until the certificate in use ends, negative afterwards. */
  public double secondsLeft(InstantSource clock) {
    return (validUntil().toEpochMilli() - clock.instant().toEpochMilli())
        / (double) TimeUnit.SECONDS.toMillis(1);
  }
}
