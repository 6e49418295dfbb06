// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/**
 * TLS from Envoy to Kvoy, with Kvoy's certificate verified.
 *
 * @param trustedCaFile PEM file with the authorities to believe, on Envoy's file system
 * @param serverName sent as SNI, and required as DNS name in the certificate
 */
public record ExtProcTls(String trustedCaFile, String serverName) {
  public ExtProcTls {
    if (trustedCaFile.isBlank() || serverName.isBlank()) {
      throw new IllegalArgumentException(
          "trustedCaFile and serverName are both needed, were '"
              + trustedCaFile
              + "' and '"
              + serverName
              + "'");
    }
  }
}
