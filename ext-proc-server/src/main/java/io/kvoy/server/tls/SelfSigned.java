// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import java.io.ByteArrayInputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * Makes a certificate for a gateway that encrypts without verifying, as those of the Gateway API
 * Inference Extension do towards an endpoint picker.
 *
 * <p>X.509 v3 (RFC 5280) for an ECDSA key on P-256, written by hand: the JDK can read certificates
 * and not write them, and the libraries that can are either for tests or ten megabytes.
 */
final class SelfSigned {
  private static final String ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2";
  private static final String COMMON_NAME = "2.5.4.3";
  private static final String BASIC_CONSTRAINTS = "2.5.29.19";
  private static final String KEY_USAGE = "2.5.29.15";
  private static final String EXTENDED_KEY_USAGE = "2.5.29.37";
  private static final String SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
  private static final String SUBJECT_ALT_NAME = "2.5.29.17";
  private static final int DNS_NAME = 2;

  /** Bits digitalSignature (0) and keyCertSign (5): who pins the certificate makes it a root. */
  private static final byte[] USAGE_BITS = {(byte) 0b1000_0100};

  private static final int USAGE_UNUSED_BITS = 2;

  /** Clocks of two machines differ. */
  private static final Duration BACKDATED = Duration.ofDays(1);

  /** Of the process at most: each start makes another. */
  private static final Duration VALID = Duration.ofDays(3_650);

  private SelfSigned() {}

  /**
   * Makes one with a fresh key.
   *
   * @param name common name
   * @param dnsNames for which it is valid
   */
  static Identity identity(String name, List<String> dnsNames, Instant now)
      throws GeneralSecurityException {
    SecureRandom random = new SecureRandom();
    KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
    generator.initialize(new ECGenParameterSpec("secp256r1"), random);
    KeyPair pair = generator.generateKeyPair();
    byte[] algorithm = Der.sequence(Der.oid(ECDSA_WITH_SHA256));
    byte[] subject = Der.sequence(Der.set(Der.sequence(Der.oid(COMMON_NAME), Der.text(name))));
    byte[] body =
        Der.sequence(
            Der.explicit(0, Der.integer(2)),
            Der.integer(new BigInteger(127, random).setBit(126)),
            algorithm,
            subject,
            Der.sequence(Der.time(now.minus(BACKDATED)), Der.time(now.plus(VALID))),
            subject,
            pair.getPublic().getEncoded(),
            Der.explicit(3, extensions(dnsNames)));
    Signature signature = Signature.getInstance("SHA256withECDSA");
    signature.initSign(pair.getPrivate(), random);
    signature.update(body);
    byte[] whole = Der.sequence(body, algorithm, Der.bits(signature.sign(), 0));
    X509Certificate certificate =
        (X509Certificate)
            CertificateFactory.getInstance("X.509")
                .generateCertificate(new ByteArrayInputStream(whole));
    return new Identity(pair.getPrivate(), List.of(certificate));
  }

  private static byte[] extensions(List<String> dnsNames) {
    byte[][] names =
        dnsNames.stream()
            .map(dns -> Der.implicit(DNS_NAME, dns.getBytes(StandardCharsets.US_ASCII)))
            .toArray(byte[][]::new);
    return Der.sequence(
        critical(BASIC_CONSTRAINTS, Der.sequence(Der.yes())),
        critical(KEY_USAGE, Der.bits(USAGE_BITS, USAGE_UNUSED_BITS)),
        Der.sequence(Der.oid(EXTENDED_KEY_USAGE), Der.octets(Der.sequence(Der.oid(SERVER_AUTH)))),
        Der.sequence(Der.oid(SUBJECT_ALT_NAME), Der.octets(Der.sequence(names))));
  }

  private static byte[] critical(String oid, byte[] value) {
    return Der.sequence(Der.oid(oid), Der.yes(), Der.octets(value));
  }
}
