// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import org.jspecify.annotations.Nullable;

/**
 * What an answer's bytes have told so far.
 *
 * @param firstTokenSeen whether a streamed answer has brought generated text, reasoning or a tool
 *     call; always false for answers that are not streamed
 * @param usage token counts
 * @param ending how far it came
 * @param responseId id of a {@code /v1/responses} answer, for requests that continue it; null when
 *     none was seen
 * @param malformedUsage reports with a count of a wrong type or range, ignored
 * @param tokenEvents events from the first token on, without those that report usage or an end:
 *     about the number of generated tokens, to be labelled as an estimate, when a stream reports no
 *     usage
 * @param bodyBytes length of the body
 */
public record Observation(
    boolean firstTokenSeen,
    TokenUsage usage,
    Ending ending,
    @Nullable String responseId,
    int malformedUsage,
    long tokenEvents,
    long bodyBytes) {}
