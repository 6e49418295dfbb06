// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.GeneralSecurityException;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.util.Base64;
import java.util.List;

/**
 * A folder as Kubernetes mounts a secret: {@code tls.crt} and {@code tls.key} are links into {@code
 * ..data}, itself a link to a dated folder, and an update exchanges that one link.
 */
public final class CertificateFolder {
  private final Path folder;
  private int version;

  public CertificateFolder(Path folder) throws IOException {
    this.folder = folder;
    Files.createSymbolicLink(folder.resolve("tls.crt"), Path.of("..data/tls.crt"));
    Files.createSymbolicLink(folder.resolve("tls.key"), Path.of("..data/tls.key"));
  }

  public Path path() {
    return folder;
  }

  /** Exchanges both files at once for a new key and certificate, which is returned as PEM. */
  public String renew(String dnsName) throws IOException, GeneralSecurityException {
    Identity fresh = SelfSigned.identity("test", List.of(dnsName), Instant.now());
    String certificate = pem("CERTIFICATE", fresh.own().getEncoded());
    swap(certificate, pem("PRIVATE KEY", fresh.key().getEncoded()));
    return certificate;
  }

  void swap(String certificate, String key) throws IOException {
    Path dated = Files.createDirectory(folder.resolve("..2026_" + version++));
    Files.writeString(dated.resolve("tls.crt"), certificate);
    Files.writeString(dated.resolve("tls.key"), key);
    Path link = Files.createSymbolicLink(folder.resolve("..data_tmp"), dated.getFileName());
    Files.move(
        link,
        folder.resolve("..data"),
        StandardCopyOption.ATOMIC_MOVE,
        StandardCopyOption.REPLACE_EXISTING);
  }

  static String pem(String label, byte[] der) {
    return "-----BEGIN %s-----\n%s\n-----END %s-----\n"
        .formatted(
            label,
            Base64.getMimeEncoder(64, "\n".getBytes(StandardCharsets.US_ASCII)).encodeToString(der),
            label);
  }

  static String pem(X509Certificate certificate) throws GeneralSecurityException {
    return pem("CERTIFICATE", certificate.getEncoded());
  }
}
