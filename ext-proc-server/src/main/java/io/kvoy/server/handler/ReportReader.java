// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.handler;

import io.kvoy.handler.v1.Aborted;
import io.kvoy.handler.v1.ReportRequest;
import io.kvoy.handler.v1.Usage;
import io.kvoy.inference.stream.TokenUsage;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.feedback.AnswerReport;
import io.kvoy.server.feedback.AnswerReport.Progress;
import io.kvoy.server.feedback.Dispatch;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** Reads a gateway's reports into the values that the bookkeeping takes. Stateless. */
final class ReportReader {
  /** No first token takes an hour; what claims to was measured wrongly. */
  private static final long MAX_FIRST_TOKEN_MICROS = 3_600_000_000L;

  private static final int MAX_STATUS = 599;

  private ReportReader() {}

  /**
   * A report as sent.
   *
   * @param served null for the picked worker
   * @param firstTokenMicros 0 when the report's arrival counts
   */
  record Read(
      Progress progress,
      int status,
      @Nullable Endpoint served,
      boolean isFirstToken,
      long firstTokenMicros,
      TokenUsage usage) {

    /** With what only the request itself knows. */
    AnswerReport completed(Dispatch dispatch) {
      Endpoint by =
          served == null && progress != Progress.UNREACHABLE ? dispatch.destination() : served;
      OptionalLong firstToken =
          !isFirstToken
              ? OptionalLong.empty()
              : OptionalLong.of(
                  firstTokenMicros == 0 ? dispatch.microsSincePick() : firstTokenMicros);
      return new AnswerReport(progress, status, by, firstToken, usage);
    }
  }

  /**
   * @throws IllegalArgumentException with a message for the caller
   */
  static Read read(ReportRequest report) {
    Endpoint served = null;
    if (!report.getServedEndpoint().isEmpty()) {
      served = Endpoint.parse(report.getServedEndpoint());
      if (served == null) {
        throw new IllegalArgumentException("served_endpoint is not ip:port");
      }
    }
    return switch (report.getEventCase()) {
      case FIRST_TOKEN -> {
        long micros = report.getFirstToken().getAfterMicros();
        boolean isPossible = micros > 0 && micros <= MAX_FIRST_TOKEN_MICROS;
        yield new Read(
            Progress.RUNNING, 200, served, true, isPossible ? micros : 0, TokenUsage.NOT_REPORTED);
      }
      case ENDED ->
          new Read(
              Progress.COMPLETE,
              status(report.getEnded().getStatus()),
              served,
              false,
              0,
              usage(report.getEnded().getUsage()));
      case ABORTED ->
          new Read(
              progress(report.getAborted().getCause()),
              status(report.getAborted().getStatus()),
              served,
              false,
              0,
              TokenUsage.NOT_REPORTED);
      case EVENT_NOT_SET ->
          throw new IllegalArgumentException("one of first_token, ended and aborted must be set");
    };
  }

  private static Progress progress(Aborted.Cause cause) {
    return switch (cause) {
      case CAUSE_UNREACHABLE -> Progress.UNREACHABLE;
      case CAUSE_BROKEN -> Progress.BROKEN;
      // A cause that is not told is no reason to blame a worker.
      case CAUSE_CLIENT_LEFT, CAUSE_UNSPECIFIED, UNRECOGNIZED -> Progress.CLIENT_LEFT;
    };
  }

  private static int status(int status) {
    return status >= 100 && status <= MAX_STATUS ? status : 0;
  }

  private static TokenUsage usage(Usage usage) {
    return new TokenUsage(
        count(usage.hasPromptTokens(), usage.getPromptTokens()),
        count(usage.hasCachedTokens(), usage.getCachedTokens()),
        count(usage.hasCompletionTokens(), usage.getCompletionTokens()));
  }

  /** The wire's numbers are unsigned: the negative ones are absurdly large. */
  private static OptionalLong count(boolean isSet, long value) {
    return isSet && value >= 0 ? OptionalLong.of(value) : OptionalLong.empty();
  }
}
