// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import java.nio.file.Path;

/**
 * Why a tokenizer folder cannot be used.
 *
 * @param kind what sort of problem, for metrics and for choosing how soon to try again
 * @param file the file or folder that it is about
 * @param what what was expected and what was seen; never file content
 * @param nextStep what a person can do about it
 */
public record FolderProblem(Kind kind, Path file, String what, String nextStep) {

  /** Sorts of problems. */
  public enum Kind {
    /** The folder or a file that it must have is not there. */
    ABSENT,
    /** A file is larger than its limit. */
    TOO_LARGE,
    /** The file is there and cannot be read. */
    UNREADABLE,
    /** The file was read and does not make sense. */
    MALFORMED,
    /** The file makes sense and no encoder can use it. */
    UNSUPPORTED
  }

  /** One line for a log or a status. */
  public String oneLine() {
    return file + ": " + what + "; " + nextStep;
  }
}
