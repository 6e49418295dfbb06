// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.envoy.ControlHeaders;
import io.kvoy.server.feedback.Sessions;
import java.util.List;

/**
 * What the caller asks of the decision, by headers.
 *
 * @param ttftMillis time to first token that counts as good for this request; 0 takes the pool's
 * @param endpoints endpoints that a conformance test names; empty for none
 * @param session name of the session that the request belongs to, see {@link
 *     ControlHeaders#SESSION}; empty for none
 * @param objective name of the class that the request is of, empty for none; to be believed only
 *     where the proxy wrote it
 * @param fairnessId on whose behalf it is asked, likewise
 */
public record Wishes(
    int ttftMillis, List<String> endpoints, String session, String objective, String fairnessId) {
  /** None. */
  public static final Wishes NONE = new Wishes(0, List.of(), "");

  /** Longer names of objectives and flows are none. */
  private static final int MAX_NAME_CHARS = 256;

  /** Longest target that a pool can have too. */
  private static final int MAX_TTFT_MILLIS = 600_000;

  private static final int MAX_DIGITS = 6;

  public Wishes {
    endpoints = List.copyOf(endpoints);
    session = session.length() > Sessions.MAX_CHARS ? "" : session;
    objective = objective.length() > MAX_NAME_CHARS ? "" : objective;
    fairnessId = fairnessId.length() > MAX_NAME_CHARS ? "" : fairnessId;
  }

  /** Without objective and flow. */
  public Wishes(int ttftMillis, List<String> endpoints, String session) {
    this(ttftMillis, endpoints, session, "", "");
  }

  /** The same with other endpoints. */
  public Wishes withEndpoints(List<String> named) {
    return new Wishes(ttftMillis, named, session, objective, fairnessId);
  }

  /** Milliseconds in a header, 0 when it holds no number from 1 to ten minutes. */
  public static int millis(String header) {
    String text = header.strip();
    if (text.isEmpty() || text.length() > MAX_DIGITS || !text.chars().allMatch(Wishes::isDigit)) {
      return 0;
    }
    int millis = Integer.parseInt(text);
    return millis <= MAX_TTFT_MILLIS ? millis : 0;
  }

  private static boolean isDigit(int c) {
    return c >= '0' && c <= '9';
  }
}
