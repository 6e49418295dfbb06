// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import java.util.List;

/**
 * LoRA adapters of a worker as it last reported them. An adapter that is in neither list may still
 * be loaded: vLLM names only adapters with requests (vLLM 0.32, {@code
 * vllm/v1/metrics/loggers.py}).
 *
 * @param maxAdapters how many fit into one batch, 0 when not reported
 * @param running adapters of running requests
 * @param waiting adapters of waiting requests
 */
public record AdapterLoad(int maxAdapters, List<String> running, List<String> waiting) {
  /** Nothing reported. */
  public static final AdapterLoad NONE = new AdapterLoad(0, List.of(), List.of());

  public AdapterLoad {
    running = List.copyOf(running);
    waiting = List.copyOf(waiting);
  }
}
