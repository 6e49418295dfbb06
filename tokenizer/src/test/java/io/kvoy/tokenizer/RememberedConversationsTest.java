// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.SplittableRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A tokenizer that remembers conversations, against one that remembers nothing. */
class RememberedConversationsTest {
  private static final Clock CLOCK =
      Clock.fixed(Instant.parse("2026-11-30T12:34:56Z"), ZoneOffset.UTC);

  private final SplittableRandom random = new SplittableRandom(5);

  private static PromptTokenizer load(String family, long cacheBytes) {
    var loader =
        new FolderTokenizerLoader(
            TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, CLOCK),
            new FolderTokenizerLoader.Settings(cacheBytes, Duration.ofMillis(50)));
    TokenizerLoader.Load load = loader.load(LocalTokenizers.folder(family).path());
    return ((TokenizerLoader.Load.Loaded) load).tokenizer();
  }

  @ParameterizedTest
  @ValueSource(strings = {"qwen3", "llama3_1", "gemma3", "deepseek_v3", "gptoss"})
  void idsEqualThoseOfATokenizerThatRemembersNothing(String family) {
    PromptTokenizer forgetful = load(family, 0);
    PromptTokenizer remembering = load(family, 500_000);
    List<List<Json.Obj>> conversations = new ArrayList<>();
    boolean hasGrown = false;
    for (int i = 0; i < 500; i++) {
      List<Json.Obj> messages = next(conversations);
      conversations.add(messages);
      Prompt.Chat chat = new Prompt.Chat(copy(messages), tools(), options());

      Tokenization expected = forgetful.tokenize(chat);
      Tokenization actual = remembering.tokenize(chat);

      if (expected instanceof Tokenization.Exact ids) {
        assertThat(actual).isInstanceOf(Tokenization.Exact.class);
        Tokenization.Exact exact = (Tokenization.Exact) actual;
        assertThat(exact.prompts().getFirst()).isEqualTo(ids.prompts().getFirst());
        hasGrown |= exact.growth() != null && exact.growth().sharedTokens() > 0;
      } else {
        assertThat(actual).isEqualTo(expected);
      }
    }
    assertThat(hasGrown).isEqualTo(!family.equals("gptoss"));
  }

  /** Goes on from an earlier conversation, from a part of one, or begins. */
  private List<Json.Obj> next(List<List<Json.Obj>> conversations) {
    List<Json.Obj> messages = new ArrayList<>();
    if (!conversations.isEmpty() && random.nextInt(8) > 0) {
      List<Json.Obj> earlier = conversations.get(random.nextInt(conversations.size()));
      int kept = random.nextInt(3) == 0 ? random.nextInt(earlier.size() + 1) : earlier.size();
      messages.addAll(earlier.subList(0, kept));
    }
    if (messages.size() > 40) {
      messages.clear();
    }
    if (messages.isEmpty() && random.nextInt(3) == 0) {
      messages.add(message("system", "Be brief. " + random.nextInt(2)));
    }
    boolean userIsNext =
        messages.isEmpty() || !new Json.Str("user").equals(messages.getLast().get("role"));
    if (!userIsNext) {
      messages.add(message("assistant", text()));
    }
    messages.add(message("user", text()));
    return messages;
  }

  private String text() {
    String[] pieces = {
      "Hello",
      " there",
      "\n\n",
      "<think>hm</think>",
      "<|im_end|>",
      "\u4F60\u597D",
      "\uD83D\uDE42",
      "def f(x):\n    return x",
      "  ",
      "e\u0301",
      "1234567",
      "</think>"
    };
    StringBuilder text = new StringBuilder();
    for (int n = random.nextInt(12); n > 0; n--) {
      text.append(pieces[random.nextInt(pieces.length)]);
    }
    return text.toString();
  }

  private List<Json> tools() {
    if (random.nextInt(4) > 0) {
      return List.of();
    }
    SequencedMap<String, Json> function = new LinkedHashMap<>();
    function.put("name", new Json.Str("f" + random.nextInt(2)));
    SequencedMap<String, Json> tool = new LinkedHashMap<>();
    tool.put("type", new Json.Str("function"));
    tool.put("function", new Json.Obj(function));
    return List.of(new Json.Obj(tool));
  }

  private ChatOptions options() {
    Boolean special = random.nextInt(6) == 0 ? Boolean.TRUE : null;
    Boolean generates = random.nextInt(6) == 0 ? Boolean.FALSE : null;
    return new ChatOptions(generates, null, special, null, null, null, null, null);
  }

  private static Json.Obj message(String role, String content) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    fields.put("role", new Json.Str(role));
    fields.put("content", new Json.Str(content));
    return new Json.Obj(fields);
  }

  /** As another request brings them: equal, not the same. */
  private static List<Json.Obj> copy(List<Json.Obj> messages) {
    List<Json.Obj> copies = new ArrayList<>();
    for (Json.Obj message : messages) {
      SequencedMap<String, Json> fields = new LinkedHashMap<>();
      message
          .fields()
          .forEach(
              (key, value) ->
                  fields.put(
                      key, new Json.Str(new String(((Json.Str) value).value().toCharArray()))));
      copies.add(new Json.Obj(fields));
    }
    return copies;
  }
}
