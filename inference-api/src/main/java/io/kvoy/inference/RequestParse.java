// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

/** What became of a request body. Every caller faces each case. */
public sealed interface RequestParse {

  /** Read and understood. */
  record Parsed(InferenceRequest request) implements RequestParse {}

  /**
   * Not an inference path, or well-formed with parts we do not know: forward byte-exact, pick by
   * load.
   *
   * @param reason short metric-safe word
   */
  record PassThrough(ApiKind api, String reason) implements RequestParse {}

  /**
   * Not readable on an inference path: the caller's mistake, status 400.
   *
   * @param message safe to show to the caller: position and field names only, never body text,
   *     under 512 bytes
   * @param reason short metric-safe word
   */
  record Malformed(ApiKind api, String message, String reason) implements RequestParse {}
}
