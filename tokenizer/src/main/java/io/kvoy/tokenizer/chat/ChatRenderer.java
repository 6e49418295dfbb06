// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.jinja.KnownItem;
import io.kvoy.tokenizer.jinja.RenderLimits;
import io.kvoy.tokenizer.jinja.RenderResult;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TextSearch;
import java.time.Clock;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import java.util.Set;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Renders conversations with one model's chat template, to the text that a vLLM 0.32 worker of that
 * model tokenizes.
 *
 * <p>The order of things is vLLM's: messages are normalised for the template's content format,
 * developer messages are rewritten for templates that know none, the template's variables are
 * gathered (request over server defaults, only those that the template mentions), and the template
 * runs. What the worker would answer 400 for is a {@link RenderResult.Refused} or {@link
 * RenderResult.Failed}.
 *
 * <p>Immutable and thread-safe; called on CPU threads of the routing pipeline. Never throws for any
 * request.
 */
public final class ChatRenderer {
  /**
   * Named parameters of transformers 5.19's {@code apply_chat_template} that reach no template. A
   * request may give them as template variables; they are taken away, and change nothing as vLLM
   * asks for text.
   */
  private static final Set<String> SWALLOWED =
      Set.of(
          "padding",
          "truncation",
          "max_length",
          "return_tensors",
          "return_dict",
          "tokenizer_kwargs");

  /** Marks the end of the message to be continued; transformers' own, templates may see it. */
  private static final String CONTINUE_TAG = "CONTINUE_FINAL_MESSAGE_TAG ";

  private final ChatTemplates templates;
  private final SpecialTokens specialTokens;
  private final ChatTemplateOptions options;
  private final Clock clock;

  /** Whether system messages of the messages API all go to the front. */
  private final boolean mergesSystemMessages;

  /** What the messages API's disabled thinking is called. */
  private final String disabledThinkingEffort;

  /**
   * @param clock time and zone that templates see through {@code strftime_now}; the workers' own
   *     zone, UTC in their images
   */
  public ChatRenderer(
      ChatTemplates templates,
      SpecialTokens specialTokens,
      ChatTemplateOptions options,
      Clock clock) {
    this.templates = templates;
    this.specialTokens = specialTokens;
    this.options = options;
    this.clock = clock;
    this.mergesSystemMessages =
        refusesLateSystemMessages(templates.plain())
            || (templates.withTools() != null && refusesLateSystemMessages(templates.withTools()));
    this.disabledThinkingEffort = hasWordForNoThinking() ? "none" : "low";
  }

  /** vLLM's trial ({@code entrypoints/anthropic/serving.py} _detect_merge_inline_system). */
  static boolean refusesLateSystemMessages(Template template) {
    List<Json> messages = new ArrayList<>();
    for (String role : List.of("system", "user", "system", "user")) {
      messages.add(message(role, "t"));
    }
    return template.failsInPlainJinja(
        Map.of("messages", new Json.Arr(messages), "add_generation_prompt", new Json.Bool(false)));
  }

  /**
   * Whether the effort {@code none} renders, and to something that no other effort renders to
   * (vLLM's {@code entrypoints/anthropic/serving.py} _probe_disabled_thinking_effort).
   */
  private boolean hasWordForNoThinking() {
    RenderResult none = renderEffort("none");
    return none instanceof RenderResult.Rendered
        && Stream.of("low", "medium", "high", "xhigh", "max")
            .noneMatch(effort -> renderEffort(effort).equals(none));
  }

  private RenderResult renderEffort(String effort) {
    ChatOptions request = new ChatOptions(null, null, null, effort, null, null, null, null);
    try {
      Prompt.Chat probe = new Prompt.Chat(List.of(message("user", "Hi")), List.of(), request);
      return render(prepare(probe, effort));
    } catch (ChatNormalizer.Stop stop) {
      return new RenderResult.Refused(stop.reason());
    }
  }

  private static Json.Obj message(String role, String content) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    fields.put("role", new Json.Str(role));
    fields.put("content", new Json.Str(content));
    return new Json.Obj(fields);
  }

  /** The worker's text for this conversation. */
  public RenderResult render(Prompt.Chat chat) {
    try {
      return render(prepare(chat));
    } catch (ChatNormalizer.Stop stop) {
      return result(stop);
    }
  }

  private static RenderResult result(ChatNormalizer.Stop stop) {
    return stop.isRefused()
        ? new RenderResult.Refused(stop.reason())
        : new RenderResult.Unsupported(stop.reason());
  }

  /**
   * All of a request but its messages' form.
   *
   * @param sent its messages, not yet in that form
   */
  record Setting(
      Template template,
      ConversationMemory.Form form,
      List<Json.Obj> sent,
      Json tools,
      Map<String, Json> kwargs) {}

  /**
   * A request made ready; all that is left to do depends on its last message and on developer
   * messages.
   */
  record Input(Setting setting, List<Json.Obj> messages) {}

  Input prepare(Prompt.Chat chat) throws ChatNormalizer.Stop {
    return prepare(chat, effort(chat));
  }

  private @Nullable String effort(Prompt.Chat chat) {
    String effort = chat.options().reasoningEffort();
    return isAnthropic(chat.options()) && "none".equals(effort) ? disabledThinkingEffort : effort;
  }

  static boolean isAnthropic(ChatOptions options) {
    return options.source() == ApiKind.MESSAGES || options.source() == ApiKind.COUNT_TOKENS;
  }

  private Input prepare(Prompt.Chat chat, @Nullable String effort) throws ChatNormalizer.Stop {
    Setting setting = setting(chat, effort);
    ConversationMemory.Form form = setting.form;
    return new Input(
        setting, ChatNormalizer.messages(setting.sent, form.format(), form.keepsKeyOrder()));
  }

  private Setting setting(Prompt.Chat chat, @Nullable String effort) throws ChatNormalizer.Stop {
    Map<String, Json> kwargs = kwargs(chat, effort);
    Json tools = kwargs.remove("tools");
    if (tools == null) {
      tools = Json.Null.NULL;
    }
    Template withTools = templates.withTools();
    Template template =
        tools != Json.Null.NULL && withTools != null ? withTools : templates.plain();
    ContentFormat format = options.contentFormat();
    if (format == null) {
      format = template.iteratesOverContent() ? ContentFormat.OPENAI : ContentFormat.STRING;
    }
    List<Json.Obj> sent = chat.messages();
    if (mergesSystemMessages && isAnthropic(chat.options())) {
      sent = ChatNormalizer.systemMessagesMerged(sent);
    }
    kwargs.keySet().removeIf(name -> !reaches(template, name));
    return new Setting(
        template,
        new ConversationMemory.Form(format, chat.options().source() == ApiKind.RESPONSES),
        sent,
        tools,
        kwargs);
  }

  private static boolean reaches(Template template, String name) {
    return switch (name) {
      case "documents",
          "add_generation_prompt",
          "continue_final_message",
          "return_assistant_tokens_mask",
          "conversation" ->
          true;
      default -> !SWALLOWED.contains(name) && template.undeclaredVariables().contains(name);
    };
  }

  /**
   * Template variables before the template has its say: server defaults, then the request, then its
   * own fields.
   */
  private Map<String, Json> kwargs(Prompt.Chat chat, @Nullable String effort)
      throws ChatNormalizer.Stop {
    ChatOptions request = chat.options();
    Json.Obj own = request.chatTemplateKwargs();
    Map<String, Json> ownKwargs = own == null ? Map.of() : own.fields();
    if (request.chatTemplate() != null || isGiven(ownKwargs.get("chat_template"))) {
      throw ChatNormalizer.Stop.refused(
          "Chat template is passed with request, but --trust-request-chat-template is not set. "
              + "Refused request with untrusted chat template.");
    }
    for (String reserved : List.of("tokenize", "tokenizer", "model_config")) {
      if (isGiven(ownKwargs.get(reserved))) {
        throw ChatNormalizer.Stop.unsupported("kwarg_" + reserved);
      }
    }
    Map<String, Json> kwargs = new LinkedHashMap<>(options.defaultTemplateKwargs().fields());
    if (!chat.tools().isEmpty() && !excludesTools(request)) {
      kwargs.put("tools", ChatNormalizer.tools(chat.tools()));
    }
    ownKwargs.forEach((name, value) -> putGiven(name, value, kwargs));
    Boolean addGenerationPrompt = request.addGenerationPrompt();
    kwargs.put(
        "add_generation_prompt", new Json.Bool(addGenerationPrompt == null || addGenerationPrompt));
    kwargs.put(
        "continue_final_message",
        new Json.Bool(Boolean.TRUE.equals(request.continueFinalMessage())));
    if (request.documents() != null) {
      kwargs.put("documents", request.documents());
    }
    if (effort != null) {
      kwargs.put("reasoning_effort", new Json.Str(effort));
      if (!ownKwargs.containsKey("enable_thinking")) {
        kwargs.put("enable_thinking", new Json.Bool(!effort.equals("none")));
      }
    }
    return kwargs;
  }

  private boolean excludesTools(ChatOptions request) {
    return options.excludeToolsWhenToolChoiceNone()
        && request.toolChoice() instanceof Json.Str(String choice)
        && choice.equals("none");
  }

  private static boolean isGiven(@Nullable Json value) {
    return value != null && value != Json.Null.NULL;
  }

  /** vLLM takes null and "auto" for not given. */
  private static void putGiven(String name, Json value, Map<String, Json> kwargs) {
    if (isGiven(value) && !(value instanceof Json.Str(String text) && text.equals("auto"))) {
      kwargs.put(name, value);
    }
  }

  RenderResult render(Input input) throws ChatNormalizer.Stop {
    List<Json.Obj> messages = withKnownRoles(input);
    return switch (variables(input.setting)) {
      case Variables.Ready(Map<String, Json> variables, boolean continues) -> {
        if (continues) {
          yield renderContinued(input.setting.template, messages, variables);
        }
        variables.put("messages", new Json.Arr(new ArrayList<>(messages)));
        yield input.setting.template.render(variables, RenderLimits.DEFAULTS, clock);
      }
      case Variables.Failed(RenderResult.Failed failed) -> failed;
    };
  }

  /** A text in parts, or what {@link #render} gives. */
  public sealed interface Recalled {
    /**
     * @param parts the text, one behind the other; those of remembered messages are the strings
     *     that they were before
     */
    record Text(ConversationMemory.Turn turn, List<String> parts) implements Recalled {}

    record Other(RenderResult result) implements Recalled {}
  }

  /** The same text by means of what is remembered of the conversation. */
  public Recalled render(Prompt.Chat chat, ConversationMemory memory) {
    try {
      Setting setting = setting(chat, effort(chat));
      if (!(variables(setting)
              instanceof Variables.Ready(Map<String, Json> variables, boolean continues))
          || continues) {
        return new Recalled.Other(render(chat));
      }
      ConversationMemory.Turn turn = memory.recall(setting.sent, setting.form);
      if (turn.hasDeveloper() && !setting.template.knowsDevelopers()) {
        return new Recalled.Other(render(chat));
      }
      List<KnownItem> items = turn.items();
      List<String> parts = new ArrayList<>(items.size() + 2);
      RenderResult failure =
          setting.template.renderParts(variables, items, RenderLimits.DEFAULTS, clock, parts);
      return failure == null ? new Recalled.Text(turn, parts) : new Recalled.Other(failure);
    } catch (ChatNormalizer.Stop _) {
      // Of several reasons it gives the worker's.
      return new Recalled.Other(render(chat));
    }
  }

  /** The template's variables but for the messages. */
  private sealed interface Variables {
    record Ready(Map<String, Json> byName, boolean continues) implements Variables {}

    record Failed(RenderResult.Failed failed) implements Variables {}
  }

  private Variables variables(Setting setting) throws ChatNormalizer.Stop {
    if (setting.sent.isEmpty()) {
      throw ChatNormalizer.Stop.refused(
          "Cannot apply chat template to an empty conversation. Provide at least one message.");
    }
    Map<String, Json> kwargs = new HashMap<>(setting.kwargs);
    boolean continues = isTrue(kwargs.remove("continue_final_message"));
    if (continues && isTrue(kwargs.get("add_generation_prompt"))) {
      throw ChatNormalizer.Stop.refused(
          "continue_final_message and add_generation_prompt are not compatible.");
    }
    Json mask = kwargs.remove("return_assistant_tokens_mask");
    if (kwargs.containsKey("conversation") || kwargs.containsKey("messages")) {
      return new Variables.Failed(new RenderResult.Failed("type_error"));
    }
    if (mask != null && isTrue(mask)) {
      return new Variables.Failed(new RenderResult.Failed("value_error"));
    }
    Json documents = kwargs.remove("documents");
    if (documents instanceof Json.Arr(var items)
        && !items.stream().allMatch(Json.Obj.class::isInstance)) {
      return new Variables.Failed(new RenderResult.Failed("type_error"));
    }
    Map<String, Json> variables = new HashMap<>();
    specialTokens.byName().forEach((name, token) -> variables.put(name, new Json.Str(token)));
    variables.putAll(kwargs);
    variables.put("tools", setting.tools);
    variables.put("documents", documents == null ? Json.Null.NULL : documents);
    return new Variables.Ready(variables, continues);
  }

  /** Templates that know no developer get system messages instead. */
  private static List<Json.Obj> withKnownRoles(Input input) {
    return !input.setting.template.knowsDevelopers()
            && input.messages.stream()
                .anyMatch(message -> ChatNormalizer.hasRole(message, "developer"))
        ? ChatNormalizer.developerAsSystem(input.messages)
        : input.messages;
  }

  private static boolean isTrue(@Nullable Json value) {
    return value instanceof Json.Bool(boolean flag) && flag;
  }

  /**
   * Leaves the last message open: a tag is put behind its text, and the rendered text is cut off at
   * the tag. Where the template trimmed the text, the white space in front of the tag goes as well.
   */
  private RenderResult renderContinued(
      Template template, List<Json.Obj> conversation, Map<String, Json> variables)
      throws ChatNormalizer.Stop {
    List<Json> messages = new ArrayList<>(conversation);
    Json.Obj last = conversation.getLast();
    if (!template.source().contains("content")) {
      throw ChatNormalizer.Stop.refused(
          "continue_final_message is set to \"content\" but this is not an accepted field in the "
              + "chat_template");
    }
    String text = null;
    SequencedMap<String, Json> tagged = new LinkedHashMap<>(last.fields());
    if (last.get("content") instanceof Json.Str(String content)) {
      text = content;
      tagged.put("content", new Json.Str(content + CONTINUE_TAG));
    } else if (last.get("content") instanceof Json.Arr(var items)) {
      List<Json> parts = new ArrayList<>(items);
      for (int i = parts.size() - 1; i >= 0 && text == null; i--) {
        if (parts.get(i) instanceof Json.Obj part
            && part.get("text") instanceof Json.Str(String partText)) {
          text = partText;
          SequencedMap<String, Json> fields = new LinkedHashMap<>(part.fields());
          fields.put("text", new Json.Str(partText + CONTINUE_TAG));
          parts.set(i, new Json.Obj(fields));
        }
      }
      tagged.put("content", new Json.Arr(parts));
    }
    if (text == null) {
      throw ChatNormalizer.Stop.refused(
          "continue_final_message is set but we could not find any text to continue in the final "
              + "message!");
    }
    messages.set(messages.size() - 1, new Json.Obj(tagged));
    variables.put("messages", new Json.Arr(messages));
    RenderResult result = template.render(variables, RenderLimits.DEFAULTS, clock);
    if (!(result instanceof RenderResult.Rendered(String rendered))) {
      return result;
    }
    int tag = rendered.lastIndexOf(CONTINUE_TAG.strip());
    if (tag < 0 || !TextSearch.contains(rendered, Template.strip(text))) {
      throw ChatNormalizer.Stop.refused(
          "continue_final_message is set but the final message does not appear in the chat after "
              + "applying the chat template!");
    }
    String open = rendered.substring(0, tag);
    return new RenderResult.Rendered(
        rendered.startsWith(CONTINUE_TAG, tag) ? open : Template.stripEnd(open));
  }
}
