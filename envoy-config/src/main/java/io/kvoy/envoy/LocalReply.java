// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/**
 * The answers that Envoy gives of its own accord where Kvoy writes its configuration: by cause,
 * what the client sees. The first cause that applies counts. What Kvoy refuses is not among them.
 */
public enum LocalReply {
  /** Kvoy did not answer and Envoy is to fail closed, or cannot fail open any more. */
  PICKER_DOWN(
      "response.code_details.startsWith('ext_proc_error')",
      "Kvoy is down, or broke off, and the request cannot be served without it",
      503,
      "The router is not available. Try again.",
      "ServiceUnavailableError",
      "overloaded_error"),
  /** Larger than Envoy's buffer. */
  TOO_LARGE(
      "response.code == 413",
      "the body is larger than Envoy's buffer, a little above Kvoy's own limit",
      413,
      "The request body is larger than the limit.",
      "RequestTooLargeError",
      "request_too_large"),
  /** The picked worker and those of the retries could not be reached. */
  NO_WORKER(
      "response.code == 503",
      "no worker could be connected to, retries included, or a worker cut the connection",
      503,
      "No worker could be reached. Try again.",
      "ServiceUnavailableError",
      "overloaded_error"),
  /** One of Envoy's times ran out. */
  TOO_SLOW(
      "response.code == 504 || response.code == 408",
      "nothing moved for longer than the idle timeout, or headers came too slowly; the status is Envoy's own",
      0,
      "The request took too long.",
      "TimeoutError",
      "timeout_error");

  final String when;
  private final String cause;
  private final int status;
  private final String message;
  private final String openAiType;
  private final String anthropicType;

  LocalReply(
      String when,
      String cause,
      int status,
      String message,
      String openAiType,
      String anthropicType) {
    this.when = when;
    this.cause = cause;
    this.status = status;
    this.message = message;
    this.openAiType = openAiType;
    this.anthropicType = anthropicType;
  }

  /** When it happens, for people who read the documentation. */
  public String cause() {
    return cause;
  }

  /** HTTP status; 0 for the one that Envoy chose. */
  public int status() {
    return status;
  }

  public String message() {
    return message;
  }

  /** {@code error.type} for callers of an OpenAI API. */
  public String openAiType() {
    return openAiType;
  }

  /** {@code error.type} for callers of {@code /v1/messages}. */
  public String anthropicType() {
    return anthropicType;
  }

  /** Seconds to wait before the next try; 0 for no {@code retry-after}. */
  public int retryAfterSeconds() {
    return status == 503 ? 1 : 0;
  }
}
