// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What {@code add_special_tokens} puts around the ids of a text.
 *
 * @param before ids in front, such as a BOS
 * @param after ids behind
 */
public record PostProcessor(List<Integer> before, List<Integer> after) {

  public static final PostProcessor NONE = new PostProcessor(List.of(), List.of());

  public PostProcessor {
    before = List.copyOf(before);
    after = List.copyOf(after);
  }

  /** What is added, with room between for so many ids, from {@code before().size()} on. */
  int[] roomFor(int ids) {
    var all = new int[before.size() + ids + after.size()];
    int at = 0;
    for (int id : before) {
      all[at++] = id;
    }
    at += ids;
    for (int id : after) {
      all[at++] = id;
    }
    return all;
  }

  /** These ids with what is added around them. */
  public int[] around(int[] ids) {
    int[] all = roomFor(ids.length);
    System.arraycopy(ids, 0, all, before.size(), ids.length);
    return all;
  }

  /**
   * Reads {@code post_processor} of a {@code tokenizer.json}: null, ByteLevel (which only moves
   * offsets), TemplateProcessing, and a Sequence in which at most one of them adds something.
   *
   * @return empty for anything else
   */
  public static Optional<PostProcessor> read(Json value) {
    if (value instanceof Json.Null) {
      return Optional.of(NONE);
    }
    if (!(value instanceof Json.Obj object)
        || !(object.get("type") instanceof Json.Str(String type))) {
      return Optional.empty();
    }
    return switch (type) {
      case "ByteLevel" -> Optional.of(NONE);
      case "TemplateProcessing" -> readTemplate(object);
      case "Sequence" -> readSequence(object);
      default -> Optional.empty();
    };
  }

  private static Optional<PostProcessor> readSequence(Json.Obj processor) {
    if (!(processor.get("processors") instanceof Json.Arr(List<Json> steps))) {
      return Optional.empty();
    }
    PostProcessor only = NONE;
    for (Json step : steps) {
      Optional<PostProcessor> read = read(step);
      if (read.isEmpty() || !(only.equals(NONE) || read.get().equals(NONE))) {
        return Optional.empty();
      }
      only = only.equals(NONE) ? read.get() : only;
    }
    return Optional.of(only);
  }

  private static Optional<PostProcessor> readTemplate(Json.Obj processor) {
    if (!(processor.get("single") instanceof Json.Arr(List<Json> pieces))
        || !(processor.get("special_tokens") instanceof Json.Obj specialTokens)) {
      return Optional.empty();
    }
    var before = new ArrayList<Integer>();
    var after = new ArrayList<Integer>();
    int sequences = 0;
    for (Json piece : pieces) {
      if (piece instanceof Json.Obj object && object.get("Sequence") != null) {
        sequences++;
      } else if (!addSpecialIds(piece, specialTokens, sequences == 0 ? before : after)) {
        return Optional.empty();
      }
    }
    return sequences == 1 ? Optional.of(new PostProcessor(before, after)) : Optional.empty();
  }

  private static boolean addSpecialIds(Json piece, Json.Obj specialTokens, List<Integer> into) {
    if (!(piece instanceof Json.Obj object)
        || !(object.get("SpecialToken") instanceof Json.Obj named)
        || !(named.get("id") instanceof Json.Str(String name))
        || !(specialTokens.get(name) instanceof Json.Obj token)
        || !(token.get("ids") instanceof Json.Arr(List<Json> items))) {
      return false;
    }
    for (Json item : items) {
      if (!(item instanceof Json.Int(long id)) || id < 0 || id > Integer.MAX_VALUE) {
        return false;
      }
      into.add((int) id);
    }
    return true;
  }
}
