// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import java.util.List;

/** What became of a conversation in Harmony, the prompt format of gpt-oss. */
public sealed interface HarmonyResult {

  /** A piece of a prompt. */
  sealed interface Segment {
    /** One special token, by its text in the vocabulary, such as {@code <|start|>}. */
    record Marker(String token) implements Segment {}

    /**
     * Text to be encoded by itself, special tokens in it taken for plain text: vLLM encodes piece
     * by piece, so no token crosses a border.
     */
    record Text(String text) implements Segment {}
  }

  /** The prompt, piece by piece. */
  record Rendered(List<Segment> segments) implements HarmonyResult {
    public Rendered {
      segments = List.copyOf(segments);
    }

    /**
     * All pieces in one text. Encoding this instead of the pieces gives other ids for texts that
     * hold markers.
     */
    public String text() {
      StringBuilder text = new StringBuilder();
      for (Segment segment : segments) {
        text.append(
            switch (segment) {
              case Segment.Marker(String token) -> token;
              case Segment.Text(String part) -> part;
            });
      }
      return text.toString();
    }
  }

  /**
   * The worker answers 400.
   *
   * @param message the worker's own words; may quote the request, so it is never logged
   */
  record Refused(String message) implements HarmonyResult {}

  /**
   * Beyond this class; the worker may well render it.
   *
   * @param feature short metric-safe word
   */
  record Unsupported(String feature) implements HarmonyResult {}
}
