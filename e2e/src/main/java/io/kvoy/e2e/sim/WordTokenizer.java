// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJsonReader;
import io.kvoy.tokenizer.Tokenization;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A tokenizer without files: every word with the space before it, every other character and every
 * role mark is one token, whose id is a hash. For tests of the simulator itself and for prompts
 * given as ids; a router cannot reproduce it.
 */
final class WordTokenizer implements SimTokenizer {
  private static final Pattern PIECE = Pattern.compile("<\\|[a-z_]+\\|>| ?\\p{L}+| ?\\p{N}+|\\s|.");
  private static final int SIZE = 131_072;
  private static final int FIRST_HASHED = 16;

  @Override
  public Tokenization prompts(ApiKind api, byte[] body) {
    return PythonJsonReader.read(new String(body, StandardCharsets.UTF_8))
            instanceof PythonJsonReader.Outcome.Read(Json.Obj object)
        ? prompts(object)
        : new Tokenization.Unavailable("unreadable");
  }

  private Tokenization prompts(Json.Obj body) {
    Json prompt = body.get("prompt");
    if (prompt != null) {
      return completion(prompt);
    }
    StringBuilder text = new StringBuilder();
    if (body.get("system") != null) {
      text.append("<|system|>").append(content(body.get("system"))).append("<|end|>");
    }
    if (body.get("instructions") != null) {
      text.append("<|system|>").append(content(body.get("instructions"))).append("<|end|>");
    }
    if (body.get("input") instanceof Json.Str(String input)) {
      text.append("<|user|>").append(input).append("<|end|>");
    }
    Json turns = body.get("messages") == null ? body.get("input") : body.get("messages");
    if (turns instanceof Json.Arr(List<Json> messages)) {
      for (Json message : messages) {
        if (message instanceof Json.Obj object) {
          String role = object.get("role") instanceof Json.Str(String name) ? name : "user";
          text.append("<|").append(role).append("|>");
          text.append(content(object.get("content"))).append("<|end|>");
        }
      }
    }
    return text(text.append("<|assistant|>").toString());
  }

  private Tokenization completion(Json prompt) {
    if (prompt instanceof Json.Str(String text)) {
      return text(text);
    }
    if (!(prompt instanceof Json.Arr(List<Json> items))) {
      return new Tokenization.Unavailable("prompt_shape");
    }
    if (items.isEmpty() || items.getFirst() instanceof Json.Int) {
      return new Tokenization.Exact(List.of(ints(items)));
    }
    List<int[]> prompts = new ArrayList<>();
    for (Json item : items) {
      if (item instanceof Json.Arr(List<Json> ids)) {
        prompts.add(ints(ids));
      } else if (item instanceof Json.Str(String text)) {
        prompts.add(encode(text));
      }
    }
    return new Tokenization.Exact(prompts);
  }

  private static int[] ints(List<Json> items) {
    return items.stream().mapToInt(i -> i instanceof Json.Int(long id) ? (int) id : 0).toArray();
  }

  private static String content(@Nullable Json content) {
    return switch (content) {
      case Json.Str(String text) -> text;
      case Json.Arr(List<Json> parts) -> {
        List<String> texts = new ArrayList<>();
        for (Json part : parts) {
          if (part instanceof Json.Obj object && object.get("text") instanceof Json.Str(var text)) {
            texts.add(text);
          }
        }
        yield String.join("\n", texts);
      }
      case null, default -> "";
    };
  }

  @Override
  public Tokenization text(String text) {
    return new Tokenization.Exact(List.of(encode(text)));
  }

  private static int[] encode(String text) {
    Matcher piece = PIECE.matcher(text);
    List<Integer> ids = new ArrayList<>();
    while (piece.find()) {
      long hash = SeededNoise.mix(piece.group().hashCode());
      ids.add(FIRST_HASHED + (int) Math.floorMod(hash, (long) SIZE - FIRST_HASHED));
    }
    return ids.stream().mapToInt(Integer::intValue).toArray();
  }

  @Override
  public int vocabularySize() {
    return SIZE;
  }

  @Override
  public int endId() {
    return 2;
  }
}
