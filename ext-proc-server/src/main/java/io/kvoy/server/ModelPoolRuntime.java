// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.config.ModelPool;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.tokens.WorkerTokens;
import io.kvoy.tokenizer.PromptTokenizer;
import org.jspecify.annotations.Nullable;

/**
 * A configured pool and what runs for it.
 *
 * @param config as in the file
 * @param tokenizer answers {@code Unavailable} while its files are loading or missing
 * @param workerTokens asks its workers instead; null for pools with a tokenizer of their own or
 *     none
 * @param meters its meters
 */
public record ModelPoolRuntime(
    ModelPool config,
    PromptTokenizer tokenizer,
    @Nullable WorkerTokens workerTokens,
    PoolMeters meters) {

  public String name() {
    return config.name();
  }

  /** The adapter that a model name asks for, null for the base model. */
  public @Nullable String adapter(String model) {
    return config.adapters().contains(model) ? model : null;
  }
}
