// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import java.nio.file.Path;
import java.util.List;

/** Writes the {@code kvoy.yaml} of a stage: what a user would write for static workers. */
final class StageConfig {
  private StageConfig() {}

  /**
   * The file's text.
   *
   * @param tokenizer folder; a missing one routes by load alone
   */
  static String yaml(
      String model,
      Path tokenizer,
      List<? extends StageWorker> workers,
      int extProcPort,
      int healthPort,
      int adminPort,
      int handlerPort) {
    StringBuilder yaml = new StringBuilder();
    yaml.append(
        """
        apiVersion: inference.kvoy.io/v1alpha1
        kind: KvoyConfig
        metadata:
          name: demo
        spec:
          listen:
            extProc: %d
            health: %d
            admin: %d
            reports: off
            inferenceHandler: %d
          limits:
            maxRequestBody: 4MiB
          timeouts:
            decision: 5s          # a small machine that starts everything at once
          feedback:
            responseHeaders: true # the demo shows them; off by default
        ---
        apiVersion: inference.kvoy.io/v1alpha1
        kind: ModelPool
        metadata:
          name: demo
        spec:
          models: [%s]
          tokenizer: %s
          healthInterval: 500ms
          workers:
        """
            .formatted(extProcPort, healthPort, adminPort, handlerPort, model, tokenizer));
    for (StageWorker worker : workers) {
      yaml.append(
          """
          - name: %s
            address: %s
            kvEvents:
              endpoint: %s
              replayEndpoint: %s
          """
              .indent(2)
              .formatted(worker.name(), worker.endpoint(), worker.kvEvents(), worker.kvReplay()));
    }
    return yaml.toString();
  }
}
