// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.files.FolderProblem;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Optional;

/**
 * State of one model's tokenizer, for metrics, the status page and readiness.
 *
 * <pre>
 * from      to         trigger
 * LOADING   READY      folder read, encoder built
 * LOADING   FAILED     a problem; tried again with back-off
 * FAILED    READY      a later try went well
 * READY     READY      files changed: the new one takes over, or the old one stays and lastProblem is set
 * any       MISMATCH   somebody compared with a worker and ids differ
 * </pre>
 */
public sealed interface TokenizerStatus {

  Path folder();

  /** First load under way or waiting for its turn. */
  record Loading(Path folder) implements TokenizerStatus {}

  /**
   * Answers requests.
   *
   * @param encoder which encoder it uses and why
   * @param lastProblem set while a changed folder cannot be loaded and the earlier one goes on
   */
  record Ready(Path folder, String encoder, Instant since, Optional<FolderProblem> lastProblem)
      implements TokenizerStatus {}

  /**
   * No tokenizer; requests of this model are routed by load alone.
   *
   * @param attempts tries so far
   * @param nextTry when the next one is due
   */
  record Failed(Path folder, FolderProblem problem, int attempts, Instant nextTry)
      implements TokenizerStatus {}

  /** A worker of this model computes other ids: the folder belongs to another model. */
  record Mismatch(Path folder) implements TokenizerStatus {}
}
