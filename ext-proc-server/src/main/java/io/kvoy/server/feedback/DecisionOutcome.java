// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import java.util.OptionalLong;

/**
 * What came of a decision.
 *
 * @param servedBy worker that really served, which after a retry is another one than picked
 * @param status HTTP status of the answer, 0 when there was none
 * @param ttftMillis pick to first token, NaN when not seen
 * @param promptTokens as the worker reported, empty when it did not
 * @param cachedTokens as the worker reported, empty when it did not
 * @param completionTokens as the worker reported, empty when it did not
 * @param end how it ended: {@code end}, {@code abort}, {@code reset}, {@code expired}
 */
public record DecisionOutcome(
    String servedBy,
    int status,
    double ttftMillis,
    OptionalLong promptTokens,
    OptionalLong cachedTokens,
    OptionalLong completionTokens,
    String end) {}
