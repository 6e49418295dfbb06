// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

/** How far an answer came, by its own bytes. */
public enum Ending {
  /** More is expected. */
  RUNNING,
  /**
   * It said itself that it is finished ({@code [DONE]}, {@code message_stop}, {@code
   * response.completed}), or is whole.
   */
  COMPLETE,
  /**
   * It stopped without saying so; treated as finished, its usage is what had been reported until
   * then.
   */
  CLOSED,
  /** It carries an error, at the start or after some text. */
  ERROR
}
