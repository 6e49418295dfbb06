// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.Json;
import java.util.List;
import java.util.Set;

/**
 * Which message contents are text through and through (vLLM 0.32 {@code renderers/chat_utils.py}).
 */
final class ChatParts {
  private static final Set<String> MEDIA =
      Set.of("image_part", "audio_part", "video_part", "file_part");

  private ChatParts() {}

  /** Notes the text of a message's content, and a doubt for everything in it that is not text. */
  static void note(Json content, Envelope envelope) {
    switch (content) {
      case Json.Null _ -> {}
      case Json.Str(String text) -> envelope.text(text);
      case Json.Arr(List<Json> parts) -> parts.forEach(part -> notePart(part, envelope));
      case Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _, Json.Obj _ ->
          envelope.doubt("content_type");
    }
  }

  private static void notePart(Json part, Envelope envelope) {
    switch (part) {
      case Json.Str(String text) -> envelope.text(text);
      case Json.Obj object -> {
        String type = object.get("type") instanceof Json.Str(String t) ? t : "";
        String field = textFieldOf(type);
        if (MEDIA.contains(reasonFor(type))) {
          envelope.media(reasonFor(type));
        } else if (field.isEmpty()) {
          envelope.doubt(reasonFor(type));
        } else if (Envelope.present(object, "uuid") != null) {
          // With an id vLLM looks for a media key whatever the type says.
          envelope.doubt("unknown_part");
        } else if (object.get(field) instanceof Json.Str(String text)) {
          envelope.text(text);
        } else if (!type.equals("text") && !type.equals("refusal")) {
          envelope.doubt("part_type");
        }
      }
      case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _, Json.Arr _ ->
          envelope.doubt("part_type");
    }
  }

  /** The field that holds the text of a text part; empty for other parts. */
  private static String textFieldOf(String type) {
    return switch (type) {
      case "text", "input_text", "output_text" -> "text";
      case "thinking" -> "thinking";
      case "refusal" -> "refusal";
      default -> "";
    };
  }

  /** A word from a closed set: a client's own type name must not become a metric label. */
  private static String reasonFor(String type) {
    return switch (type) {
      case "image_url", "input_image", "image_embeds", "image_pil", "image" -> "image_part";
      case "audio_url", "input_audio", "audio_embeds", "audio" -> "audio_part";
      case "video_url", "input_video", "video_embeds", "video" -> "video_part";
      case "file", "input_file" -> "file_part";
      case "prompt_embeds" -> "prompt_embeds";
      case "tool_reference" -> "tool_reference";
      case "" -> "untyped_part";
      default -> "unknown_part";
    };
  }
}
