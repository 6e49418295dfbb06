// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A folder with {@code tls.crt} and {@code tls.key}, as a Kubernetes secret of type {@code
 * kubernetes.io/tls} is mounted: PEM, the key as PKCS#8, PKCS#1 (RSA) or SEC 1 (EC), the last two
 * being what cert-manager writes unless told otherwise.
 *
 * @param folder where they lie; the files may be links into a folder that is exchanged
 */
record PemFolder(Path folder) {
  private static final String CERTIFICATE_FILE = "tls.crt";
  private static final String KEY_FILE = "tls.key";

  /** A chain of a dozen certificates. */
  private static final int MAX_FILE_BYTES = 256 << 10;

  private static final Pattern PEM_BLOCK =
      Pattern.compile("-----BEGIN ([A-Z0-9 ]{1,32})-----([A-Za-z0-9+/=\\s]+)-----END \\1-----");

  private static final String RSA_ENCRYPTION = "1.2.840.113549.1.1.1";
  private static final String EC_PUBLIC_KEY = "1.2.840.10045.2.1";

  /**
   * The two files as they were read together.
   *
   * @param hash of both contents
   */
  @SuppressWarnings("ArrayRecordComponent") // Handed on, never compared.
  record Content(byte[] certificate, byte[] key, String hash) {}

  /** Reads both files; they may be of two writings, which {@link #identity} finds out. */
  Content read() throws IOException {
    byte[] certificate = read(CERTIFICATE_FILE);
    byte[] key = read(KEY_FILE);
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(certificate);
      digest.update((byte) 0);
      digest.update(key);
      return new Content(certificate, key, HexFormat.of().formatHex(digest.digest()));
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  private byte[] read(String name) throws IOException {
    Path file = folder.resolve(name);
    try (InputStream in = Files.newInputStream(file)) {
      byte[] bytes = in.readNBytes(MAX_FILE_BYTES + 1);
      if (bytes.length > MAX_FILE_BYTES) {
        throw new IOException(file + " is larger than " + MAX_FILE_BYTES + " bytes");
      }
      return bytes;
    }
  }

  /**
   * Key and certificates in the two files.
   *
   * @throws GeneralSecurityException when one cannot be read or they do not belong together; the
   *     message says which and holds nothing of the key
   */
  static Identity identity(Content content) throws GeneralSecurityException {
    List<X509Certificate> chain = chain(content.certificate());
    PrivateKey key = key(content.key());
    if (!belongTogether(key, chain.getFirst().getPublicKey())) {
      throw new GeneralSecurityException(
          KEY_FILE + " is not the key of the first certificate in " + CERTIFICATE_FILE);
    }
    return new Identity(key, chain);
  }

  private static List<X509Certificate> chain(byte[] pem) throws CertificateException {
    List<X509Certificate> chain = new ArrayList<>();
    for (var certificate :
        CertificateFactory.getInstance("X.509")
            .generateCertificates(new ByteArrayInputStream(pem))) {
      chain.add((X509Certificate) certificate);
    }
    if (chain.isEmpty()) {
      throw new CertificateException(CERTIFICATE_FILE + " holds no certificate");
    }
    return chain;
  }

  private static PrivateKey key(byte[] pem) throws GeneralSecurityException {
    Matcher blocks = PEM_BLOCK.matcher(new String(pem, StandardCharsets.ISO_8859_1));
    while (blocks.find()) {
      byte[] der;
      try {
        der = Base64.getMimeDecoder().decode(blocks.group(2));
      } catch (IllegalArgumentException _) {
        throw new GeneralSecurityException(KEY_FILE + " is damaged");
      }
      switch (blocks.group(1)) {
        case "PRIVATE KEY" -> {
          return pkcs8(der);
        }
        case "RSA PRIVATE KEY" -> {
          return pkcs8(wrapped(Der.sequence(Der.oid(RSA_ENCRYPTION), Der.nothing()), der));
        }
        case "EC PRIVATE KEY" -> {
          return pkcs8(wrapped(Der.sequence(Der.oid(EC_PUBLIC_KEY), curve(der)), der));
        }
        case "ENCRYPTED PRIVATE KEY" ->
            throw new GeneralSecurityException(KEY_FILE + " is encrypted; write it in plain PEM");
        // An EC key may be preceded by its parameters, which it repeats.
        default -> {}
      }
    }
    throw new GeneralSecurityException(KEY_FILE + " holds no private key in PEM");
  }

  private static byte[] wrapped(byte[] algorithm, byte[] key) {
    return Der.sequence(Der.integer(0), algorithm, Der.octets(key));
  }

  /**
   * The curve in a SEC 1 key: SEQUENCE, version, key octets, then {@code [0]} with the curve's
   * identifier, which is returned whole.
   */
  private static byte[] curve(byte[] sec1) throws GeneralSecurityException {
    for (int at = 0; at + 4 < sec1.length; at++) {
      int length = sec1[at + 1];
      if ((sec1[at] & 0xff) == 0xa0
          && sec1[at + 2] == 0x06
          && length > 2
          && sec1[at + 3] == length - 2
          && at + 2 + length <= sec1.length) {
        byte[] oid = new byte[length];
        System.arraycopy(sec1, at + 2, oid, 0, length);
        return oid;
      }
    }
    throw new GeneralSecurityException(KEY_FILE + " does not name its curve; convert it to PKCS#8");
  }

  private static PrivateKey pkcs8(byte[] der) throws GeneralSecurityException {
    for (String algorithm : List.of("EC", "RSA", "EdDSA")) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(new PKCS8EncodedKeySpec(der));
      } catch (GeneralSecurityException _) {
        // Of another kind, or damaged.
      }
    }
    throw new GeneralSecurityException(KEY_FILE + " is neither an EC, RSA nor EdDSA key");
  }

  private static boolean belongTogether(PrivateKey key, PublicKey certified)
      throws GeneralSecurityException {
    String algorithm =
        switch (certified.getAlgorithm()) {
          case "EC" -> "SHA256withECDSA";
          case "RSA" -> "SHA256withRSA";
          default -> certified.getAlgorithm();
        };
    try {
      byte[] probe = new byte[32];
      new SecureRandom().nextBytes(probe);
      Signature signature = Signature.getInstance(algorithm);
      signature.initSign(key);
      signature.update(probe);
      byte[] signed = signature.sign();
      signature.initVerify(certified);
      signature.update(probe);
      return signature.verify(signed);
    } catch (java.security.InvalidKeyException | java.security.SignatureException _) {
      return false;
    }
  }
}
