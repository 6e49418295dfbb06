// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.Base64;
import java.util.concurrent.TimeUnit;

/**
 * Certificates made by the JDK's keytool, in a folder as Kubernetes mounts a secret: two links into
 * {@code ..data}, itself a link that an update exchanges.
 */
final class Certificates {
  static final String NAME = "kvoy.example";
  private static final char[] PASSWORD = "changeit".toCharArray();
  private final Path folder;
  private int version;

  Certificates(Path folder) throws IOException {
    this.folder = Files.createDirectories(folder);
    Files.createSymbolicLink(folder.resolve("tls.crt"), Path.of("..data/tls.crt"));
    Files.createSymbolicLink(folder.resolve("tls.key"), Path.of("..data/tls.key"));
  }

  /** Makes a key and its certificate, which is returned for whoever is to believe it. */
  Path make() throws IOException, InterruptedException, GeneralSecurityException {
    Path dated = Files.createDirectory(folder.resolve("..2026_" + version++));
    Path store = dated.resolve("made.p12");
    Process keytool =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "keytool").toString(),
                "-genkeypair",
                "-alias",
                "kvoy",
                "-keyalg",
                "EC",
                // Envoy offers P-256 and X25519 alone, and with TLS 1.2 that goes for keys too.
                "-groupname",
                "secp256r1",
                "-dname",
                "CN=" + NAME,
                "-ext",
                "san=dns:" + NAME,
                "-ext",
                "bc=ca:true",
                "-storetype",
                "PKCS12",
                "-keystore",
                store.toString(),
                "-storepass",
                new String(PASSWORD))
            .redirectErrorStream(true)
            .redirectOutput(dated.resolve("keytool.log").toFile())
            .start();
    if (!keytool.waitFor(60, TimeUnit.SECONDS) || keytool.exitValue() != 0) {
      throw new IOException("keytool: " + Files.readString(dated.resolve("keytool.log")));
    }
    KeyStore made = KeyStore.getInstance("PKCS12");
    try (InputStream in = Files.newInputStream(store)) {
      made.load(in, PASSWORD);
    }
    Path certificate = dated.resolve("tls.crt");
    Files.writeString(certificate, pem("CERTIFICATE", made.getCertificate("kvoy").getEncoded()));
    Files.writeString(
        dated.resolve("tls.key"), pem("PRIVATE KEY", made.getKey("kvoy", PASSWORD).getEncoded()));
    return certificate;
  }

  /** Exchanges what is in the folder for what was made. */
  void use(Path certificate) throws IOException {
    Path dated = certificate.getParent();
    Path link = Files.createSymbolicLink(folder.resolve("..data_tmp"), folder.relativize(dated));
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
}
