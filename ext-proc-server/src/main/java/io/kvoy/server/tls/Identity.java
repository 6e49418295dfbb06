// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import java.security.PrivateKey;
import java.security.cert.X509Certificate;
import java.util.List;

/**
 * Who a server is: a key and the certificates that vouch for it.
 *
 * @param key belongs to the first certificate
 * @param chain the server's own first
 */
record Identity(PrivateKey key, List<X509Certificate> chain) {
  Identity {
    chain = List.copyOf(chain);
  }

  X509Certificate own() {
    return chain.getFirst();
  }
}
