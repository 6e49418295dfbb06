// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.reports;

import io.kvoy.envoy.AnswerReports;
import io.kvoy.inference.stream.TokenUsage;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.feedback.AnswerReport;
import io.kvoy.server.feedback.AnswerReport.Progress;
import io.opentelemetry.proto.common.v1.KeyValue;
import io.opentelemetry.proto.logs.v1.LogRecord;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/** Reads one access log record of {@link AnswerReports}. Stateless; never throws for a record. */
final class RecordReader {
  /** What Envoy writes for a value that it does not have. */
  private static final String NONE = "-";

  /** Beyond it a number is no time or token count. */
  private static final int MAX_DIGITS = 15;

  /**
   * A record.
   *
   * @param flight id of the routed request, empty when the record names none
   */
  record Read(String flight, AnswerReport report) {}

  private RecordReader() {}

  static Read read(LogRecord record) {
    String type = "";
    String flight = "";
    String status = "";
    String firstByte = "";
    String host = "";
    String flags = "";
    String prompt = "";
    String cached = "";
    String completion = "";
    for (KeyValue attribute : record.getAttributesList()) {
      String value = attribute.getValue().getStringValue();
      switch (attribute.getKey()) {
        case AnswerReports.TYPE -> type = value;
        case AnswerReports.FLIGHT -> flight = value;
        case AnswerReports.STATUS -> status = value;
        case AnswerReports.FIRST_BYTE -> firstByte = value;
        case AnswerReports.HOST -> host = value;
        case AnswerReports.FLAGS -> flags = value;
        case AnswerReports.PROMPT_TOKENS -> prompt = value;
        case AnswerReports.CACHED_TOKENS -> cached = value;
        case AnswerReports.COMPLETION_TOKENS -> completion = value;
        default -> {}
      }
    }
    return new Read(
        flight.equals(NONE) ? "" : flight,
        new AnswerReport(
            type.equals(AnswerReports.END_TYPE) ? ended(flags) : Progress.RUNNING,
            (int) Math.min(999, number(status).orElse(0)),
            served(host),
            number(firstByte),
            usage(number(prompt), number(cached), number(completion))));
  }

  /** By Envoy's response flags (Envoy 1.40, access log documentation). */
  private static Progress ended(String flags) {
    if (flags.isEmpty() || flags.equals(NONE)) {
      return Progress.COMPLETE;
    }
    Progress worst = Progress.COMPLETE;
    for (String flag : flags.split(",", -1)) {
      switch (flag) {
        case "DC", "DR" -> {
          return Progress.CLIENT_LEFT;
        }
        case "UF" -> worst = Progress.UNREACHABLE;
        case "UH", "NR", "NC", "UO" -> {
          if (worst == Progress.COMPLETE) {
            worst = Progress.NOT_TRIED;
          }
        }
        case "UC", "UR", "LR", "UT", "SI", "UPE", "UMSDR", "DPE" -> {
          if (worst == Progress.COMPLETE) {
            worst = Progress.BROKEN;
          }
        }
        default -> {}
      }
    }
    return worst;
  }

  private static @Nullable Endpoint served(String host) {
    return host.isEmpty() || host.equals(NONE) ? null : Endpoint.parse(host);
  }

  /** More cached than there is would teach a negative prefill. */
  private static TokenUsage usage(
      OptionalLong prompt, OptionalLong cached, OptionalLong completion) {
    boolean believable =
        cached.isEmpty() || prompt.isEmpty() || cached.getAsLong() <= prompt.getAsLong();
    return new TokenUsage(prompt, believable ? cached : OptionalLong.empty(), completion);
  }

  private static OptionalLong number(String text) {
    if (text.isEmpty() || text.length() > MAX_DIGITS) {
      return OptionalLong.empty();
    }
    long value = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c < '0' || c > '9') {
        return OptionalLong.empty();
      }
      value = value * 10 + (c - '0');
    }
    return OptionalLong.of(value);
  }
}
