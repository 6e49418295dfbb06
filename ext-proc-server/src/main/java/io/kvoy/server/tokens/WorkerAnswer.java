// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import java.util.List;

/** What a worker said about the tokens of a request. */
public sealed interface WorkerAnswer {

  /**
   * The ids that it would compute with.
   *
   * @param prompts one id array per prompt, in order; not to be modified
   */
  record Ids(List<int[]> prompts) implements WorkerAnswer {
    public Ids {
      prompts = List.copyOf(prompts);
    }
  }

  /** It was not asked, or gave no ids. */
  record None(Why why) implements WorkerAnswer {}

  /** Why there are no ids; the words are metric tags. */
  enum Why {
    /**
     * Only a render endpoint could tell, and the worker has none (vLLM 0.32: {@code
     * --enable-scale-out}).
     */
    NEEDS_RENDER,
    /** The request brings a template of its own, or is otherwise one that cannot be asked about. */
    NOT_ASKABLE,
    /** The prompt has images or audio, whose tokens are not all of it. */
    MULTIMODAL,
    /** No worker of the pool is ready. */
    NO_WORKER,
    /** As many questions are under way as are allowed. */
    BUSY,
    TIMEOUT,
    UNREACHABLE,
    /** A status of 400 to 499. */
    REFUSED,
    /** A status of 500 or more. */
    ERROR,
    /** An answer without ids. */
    UNREADABLE;

    /** As metrics and decision records spell it. */
    public String word() {
      return "worker_" + name().toLowerCase(java.util.Locale.ROOT);
    }
  }
}
