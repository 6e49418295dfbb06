// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.List;
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
            "--workers 10.0.0.7:8000 --workers [2001:db8::7]:8000 --listen 0.0.0.0:80"
                + " --ext-proc kvoy.example:9 --admin 127.0.0.2:91 --plain-listen 127.0.0.1:81"
                + " --fail-closed --request-body buffered --format json");

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
                .requestBody(RequestBodyMode.BUFFERED)
                .build()
                .toJson());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "--workers 10.0.0.7 | is not host:port",
        "--workers 10.0.0.7:8000,10.0.0.7:8000 | listed twice",
        "--workers worker-0:8000 | give its IP address",
        "--workers 10.0.0.7:8000 --listen localhost:80 | listen must be an IP address",
        "--workers 10.0.0.7:8000 --request-body streamed | full-duplex, buffered",
        "--workers 10.0.0.7:8000 --format xml | yaml, json",
      })
  void wrongValueIsBadUsage(String options, String message) {
    Ran ran = bootstrap(options);

    assertThat(ran.status()).isEqualTo(2);
    assertThat(ran.err()).contains(message);
    assertThat(ran.out()).isEmpty();
  }
}
