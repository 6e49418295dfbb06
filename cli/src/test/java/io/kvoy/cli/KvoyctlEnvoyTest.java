// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.ExtProcTls;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.envoy.XdsBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvoyctlEnvoyTest {

  private static final List<Endpoint> WORKERS =
      List.of(new Endpoint("10.0.0.7", 8000), new Endpoint("2001:db8::7", 8000));

  private static Ran bootstrap(String options) {
    return Ran.kvoyctl(("envoy bootstrap " + options).split(" "));
  }

  @Test
  void withoutOptionsTheDefaultsOfTheBuilderApply() {
    Ran ran = bootstrap("--workers 10.0.0.7:8000,[2001:db8::7]:8000");

    assertThat(ran.status()).isZero();
    assertThat(ran.out()).isEqualTo(EnvoyBootstrap.builder().workers(WORKERS).build().toYaml());
  }

  @Test
  void eachOptionReachesTheConfiguration() {
    Ran ran =
        bootstrap(
            "--workers 10.0.0.7:8000 --workers [2001:db8::7]:8000 --listen 0.0.0.0:80 --ext-proc"
                + " kvoy.example:9 --admin 127.0.0.2:91 --plain-listen 127.0.0.1:81 --fail-closed"
                + " --request-body full-duplex --answers reported --reports 127.0.0.3:95 --format"
                + " json --tls-ca /etc/ca.pem --tls-server-name kvoy.example");

    assertThat(ran.status()).isZero();
    assertThat(ran.out())
        .isEqualTo(
            EnvoyBootstrap.builder()
                .workers(WORKERS)
                .listen(new Endpoint("0.0.0.0", 80))
                .extProc(new Endpoint("kvoy.example", 9))
                .admin(new Endpoint("127.0.0.2", 91))
                .plainListen(new Endpoint("127.0.0.1", 81))
                .failOpen(false)
                .requestBody(RequestBodyMode.FULL_DUPLEX_STREAMED)
                .responseBody(ResponseBodyMode.REPORTED)
                .reports(new Endpoint("127.0.0.3", 95))
                .extProcTls(new ExtProcTls("/etc/ca.pem", "kvoy.example"))
                .build()
                .toJson());
  }

  @Test
  void withXdsThereIsOnlyTheWayToKvoy() {
    Ran ran =
        bootstrap(
            "--xds kvoy.example:9004 --xds-protocol state-of-the-world --node-id edge-1 --tls-ca"
                + " /etc/ca.pem --admin 127.0.0.2:91");

    assertThat(ran.status()).isZero();
    assertThat(ran.out())
        .isEqualTo(
            new XdsBootstrap(
                    new Endpoint("127.0.0.2", 91),
                    new Endpoint("kvoy.example", 9004),
                    "edge-1",
                    XdsBootstrap.Protocol.STATE_OF_THE_WORLD,
                    Optional.of(new ExtProcTls("/etc/ca.pem", "kvoy")))
                .toYaml());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--workers 10.0.0.7 | is not host:port",
        "--workers 10.0.0.7:8000,10.0.0.7:8000 | listed twice",
        "--workers worker-0:8000 | give its IP address",
        "--workers 10.0.0.7:8000 --listen localhost:80 | listen must be an IP address",
        "--workers 10.0.0.7:8000 --request-body streamed | buffered, full-duplex",
        "--workers 10.0.0.7:8000 --format xml | yaml, json",
        "--format yaml | Missing option: '--workers=IP:PORT' or",
        "--xds 127.0.0.1:9004 --workers 10.0.0.7:8000 | --workers does not go with --xds",
        "--xds 127.0.0.1:9004 --fail-closed | --fail-closed does not go with --xds",
        "--xds 127.0.0.1:9004 --xds-protocol v2 | delta, state-of-the-world",
        "--xds 127.0.0.1:9004 --node-id ! | node id must be",
      })
  void wrongValueIsBadUsage(String options, String message) {
    Ran ran = bootstrap(options);

    assertThat(ran.status()).isEqualTo(2);
    assertThat(ran.err()).contains(message);
    assertThat(ran.out()).isEmpty();
  }
}
