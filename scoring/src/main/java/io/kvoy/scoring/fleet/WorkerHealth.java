// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

/**
 * Whether a worker may be picked, and if not, whose word that is.
 *
 * <p>Where several apply, the first of this list is shown:
 *
 * <table>
 * <caption>States</caption>
 * <tr><td>{@link Draining}</td><td>discovery says that it goes away</td></tr>
 * <tr><td>{@link Unready}</td><td>discovery, the health probe or a refused connection</td></tr>
 * <tr><td>{@link Ejected}</td><td>its answers to real requests were failures</td></tr>
 * <tr><td>{@link Ready}</td><td>none of them</td></tr>
 * </table>
 */
public sealed interface WorkerHealth {

  /** May be picked. */
  record Ready() implements WorkerHealth {
    private static final Ready INSTANCE = new Ready();
  }

  /**
   * Not to be picked until a probe or discovery says otherwise.
   *
   * @param reason why, as a value
   * @param detail for people, bounded, without anything a client sent
   */
  record Unready(UnreadyReason reason, String detail) implements WorkerHealth {}

  /** Finishes what it has, takes nothing new. */
  record Draining() implements WorkerHealth {
    private static final Draining INSTANCE = new Draining();
  }

  /**
   * Answers real requests with failures. After {@code untilNanos} single requests are let through
   * as trials ({@link FleetRegistry#grantTrial}); it is still used when no better worker is left.
   *
   * @param failures failures seen in a row or in the window when it was ejected
   * @param untilNanos monotonic time from which trials are granted
   */
  record Ejected(int failures, long untilNanos) implements WorkerHealth {}

  /** Why a worker is {@link Unready}. */
  enum UnreadyReason {
    /** No probe has come back yet. */
    NOT_PROBED,
    /** Discovery says not ready. */
    DECLARED,
    /** The data path or a probe could not connect. */
    CONNECT_FAILED,
    /** The probe got no answer in time. */
    PROBE_TIMED_OUT,
    /** The probe got an answer that is not 2xx. */
    PROBE_FAILED
  }

  /** May be picked. */
  static WorkerHealth ready() {
    return Ready.INSTANCE;
  }

  /** Goes away. */
  static WorkerHealth draining() {
    return Draining.INSTANCE;
  }

  /** True for {@link Ready}. */
  default boolean isReady() {
    return this instanceof Ready;
  }

  /** True when the worker is alive but ejected: the last resort before an empty answer. */
  default boolean isEjected() {
    return this instanceof Ejected;
  }
}
