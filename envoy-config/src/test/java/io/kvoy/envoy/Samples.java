// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import io.kvoy.scoring.fleet.Endpoint;
import java.time.Duration;
import java.util.List;

/**
 * Bootstraps that together touch the options; each is a golden file and is shown to the real Envoy.
 */
enum Samples {
  DEFAULTS,
  BUFFERED,
  FULL_DUPLEX,
  REPORTED,
  COPIED,
  DEMO,
  IPV6_NAMED_PICKER_TRUSTED;

  String file() {
    return "bootstrap-" + name().toLowerCase(java.util.Locale.ROOT).replace('_', '-') + ".json";
  }

  EnvoyBootstrap bootstrap() {
    EnvoyBootstrap.Builder base =
        EnvoyBootstrap.builder()
            .workers(List.of(new Endpoint("127.0.0.1", 8001), new Endpoint("127.0.0.1", 8002)));
    return switch (this) {
      case DEFAULTS -> base.build();
      case BUFFERED ->
          base.requestBody(RequestBodyMode.BUFFERED)
              .responseBody(ResponseBodyMode.NONE)
              .fallback(FallbackPolicy.ROUND_ROBIN)
              .failOpen(false)
              .messageTimeout(Duration.ofMillis(2_500))
              .bufferedBodyLimitBytes(8 << 20)
              .build();
      case FULL_DUPLEX ->
          base.requestBody(RequestBodyMode.FULL_DUPLEX_STREAMED)
              .responseBody(ResponseBodyMode.FULL_DUPLEX_STREAMED)
              .build();
      case REPORTED -> base.responseBody(ResponseBodyMode.REPORTED).build();
      case COPIED -> base.responseBody(ResponseBodyMode.COPIED).build();
      case DEMO ->
          base.plainListen(new Endpoint("127.0.0.1", 8081))
              .checkWorkerHealth(true)
              .accessLogPath("/dev/stdout")
              .build();
      case IPV6_NAMED_PICKER_TRUSTED ->
          base.listen(new Endpoint("::", 8080))
              .admin(new Endpoint("::1", 9901))
              .extProc(new Endpoint("kvoy.example", 9002))
              .workers(List.of(new Endpoint("2001:db8::7", 8000)))
              .trustIdentityHeaders(true)
              .build();
    };
  }
}
