// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * How far a conversation with images or sounds in it is text: up to the first message that has one.
 * That message's content is replaced by a mark, and what is rendered before the mark is the
 * worker's text too, as templates write messages one behind the other. Media further back become
 * empty texts; they are behind the mark. Stateless.
 */
final class TextBeforeMedia {

  /** Private use, so that no template knows it. A user's own one only makes the known part less. */
  private static final String MARK = "\uE0F1\uF8E3\uE0F1";

  /** Types of content parts that are text (vLLM 0.32 {@code renderers/chat_utils.py}). */
  private static final Set<String> TEXT_PARTS =
      Set.of("text", "input_text", "output_text", "refusal", "thinking", "tool_reference");

  private TextBeforeMedia() {}

  /** The conversation with a mark; null when no message has anything but text. */
  static Prompt.@Nullable Chat marked(Prompt.Chat chat) {
    List<Json.Obj> messages = new ArrayList<>(chat.messages().size());
    boolean hasMark = false;
    for (Json.Obj message : chat.messages()) {
      if (!(message.get("content") instanceof Json.Arr(List<Json> parts))
          || parts.stream().allMatch(TextBeforeMedia::isText)) {
        messages.add(message);
        continue;
      }
      SequencedMap<String, Json> fields = new LinkedHashMap<>(message.fields());
      fields.put("content", new Json.Arr(List.of(textPart(hasMark ? "" : MARK))));
      messages.add(new Json.Obj(fields));
      hasMark = true;
    }
    return hasMark ? new Prompt.Chat(messages, chat.tools(), chat.options()) : null;
  }

  /** Where the mark stands in the rendered text, or -1. */
  static int markIn(String rendered) {
    return rendered.indexOf(MARK);
  }

  private static boolean isText(Json part) {
    return part instanceof Json.Str
        || (part instanceof Json.Obj object
            && object.get("type") instanceof Json.Str(String type)
            && TEXT_PARTS.contains(type));
  }

  private static Json.Obj textPart(String text) {
    SequencedMap<String, Json> part = new LinkedHashMap<>();
    part.put("type", new Json.Str("text"));
    part.put("text", new Json.Str(text));
    return new Json.Obj(part);
  }
}
