// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A compiled template: immutable, shared by all threads.
 *
 * <p>Equal to Jinja2 3.1.6 in the environment that transformers 5.19 sets up for chat templates
 * ({@code utils/chat_template_utils.py}): immutable sandbox, {@code trim_blocks}, {@code
 * lstrip_blocks}, loop controls, {@code generation} blocks, {@code raise_exception}, {@code
 * strftime_now} and its own {@code tojson}. Not there: {@code include}, {@code import}, {@code
 * extends}, {@code block}, {@code autoescape} and what depends on chance.
 */
public final class Template {
  /** Longest source; published chat templates have up to 40 kB. */
  private static final int MAX_SOURCE_CHARS = 1 << 20;

  /** Most room made before anything is rendered. */
  private static final int MAX_EXPECTED_CHARS = 1 << 20;

  private final String source;
  private final Compiler.Program program;
  private final boolean usesGeneration;
  private final boolean iteratesOverContent;
  private final boolean knowsDevelopers;

  private Template(String source, List<Node.Statement> syntax, Compiler.Program program) {
    this.source = source;
    this.program = program;
    this.usesGeneration = syntax.stream().anyMatch(Template::usesGeneration);
    this.iteratesOverContent = ContentLoops.found(syntax);
    this.knowsDevelopers = source.contains("'developer'") || source.contains("\"developer\"");
  }

  private static boolean usesGeneration(Node node) {
    return (node instanceof Node.CallBlock block && block.call() == null)
        || Node.children(node).stream().anyMatch(Template::usesGeneration);
  }

  /** Compiles a template, once per model. */
  public static TemplateParse parse(String source) {
    if (source.length() > MAX_SOURCE_CHARS) {
      return new TemplateParse.Unsupported("source_length", 1, "longer than a million characters");
    }
    try {
      List<Node.Statement> syntax = Parser.parse(Lexer.tokenize(source));
      return new TemplateParse.Parsed(new Template(source, syntax, Compiler.compile(syntax)));
    } catch (ParseFailure failure) {
      return failure.toResult();
    } catch (StackOverflowError e) {
      // Chains of operators are as deep as they are long.
      return new TemplateParse.Unsupported("nesting", 1, "an expression has too many parts");
    }
  }

  /** Renders with these variables. Never throws for any variables. */
  public RenderResult render(Map<String, Json> variables, RenderLimits limits, Clock clock) {
    return render(variables, limits, clock, false);
  }

  private RenderResult render(
      Map<String, Json> variables, RenderLimits limits, Clock clock, boolean isPlain) {
    StringBuilder out = new StringBuilder(expectedChars(variables.get("messages")));
    RenderResult failure = run(new Render(limits, clock, values(variables), isPlain, null), out);
    return failure == null ? new RenderResult.Rendered(out.toString()) : failure;
  }

  private static Map<String, Object> values(Map<String, Json> variables) {
    Map<String, Object> values = HashMap.newHashMap(variables.size() + 1);
    variables.forEach((name, value) -> values.put(name, Values.fromJson(value)));
    return values;
  }

  /** Writes the text; what it returns is null, or why there is none. */
  private @Nullable RenderResult run(Render render, StringBuilder out) {
    try {
      Frame frame = new Frame(render, null, program.function().size());
      program.enter().run(frame);
      program.body().run(frame, out);
      Parts parts = render.parts();
      if (parts != null) {
        parts.finish(render);
      }
      return null;
    } catch (TemplateError error) {
      return error.result();
    } catch (StackOverflowError e) {
      return new RenderResult.Unsupported("limit_depth");
    }
  }

  /**
   * Renders with these variables and these {@code messages}, in parts: the text is all of them
   * together. What loops wrote for a message is taken from the message where nothing else that it
   * hung on has changed, as the same string, and kept with it where it is new. The result is that
   * of {@link #render}.
   *
   * @param into takes the parts; incomplete when the result is not null
   * @return null when all went well, else why there is no text
   */
  public @Nullable RenderResult renderParts(
      Map<String, Json> variables,
      List<KnownItem> messages,
      RenderLimits limits,
      Clock clock,
      List<String> into) {
    Map<String, Object> values = values(variables);
    values.put("messages", new PyList(new KnownItems(messages.toArray(KnownItem[]::new))));
    Parts parts = new Parts(into);
    return run(new Render(limits, clock, values, false, parts), parts.out());
  }

  /** About so long is the text, as nearly all of it is the messages' own. */
  private static int expectedChars(@Nullable Json messages) {
    long chars = 1024;
    if (messages instanceof Json.Arr(List<Json> items)) {
      for (Json item : items) {
        if (item instanceof Json.Obj message && message.get("content") instanceof Json.Str text) {
          chars += text.value().length() + 64;
        }
      }
    }
    return (int) Math.min(chars, MAX_EXPECTED_CHARS);
  }

  /**
   * Whether these variables make the template fail in plain Jinja2, without {@code
   * raise_exception}, {@code strftime_now} and {@code generation} blocks. vLLM tries templates out
   * that way; errors of Python itself, such as a wrong type, do not count.
   */
  public boolean failsInPlainJinja(Map<String, Json> variables) {
    if (usesGeneration) {
      return true;
    }
    return switch (render(variables, RenderLimits.DEFAULTS, Clock.systemUTC(), true)) {
      case RenderResult.Rendered _, RenderResult.Unsupported _ -> false;
      case RenderResult.Refused _ -> true;
      case RenderResult.Failed(String kind) ->
          kind.equals("undefined_error")
              || kind.equals("security_error")
              || kind.equals("template_error");
    };
  }

  /** The template as it was given. */
  public String source() {
    return source;
  }

  /**
   * Names that the template takes from its variables somewhere, as {@code
   * jinja2.meta.find_undeclared_variables} finds them; vLLM passes no others on from a request.
   */
  public Set<String> undeclaredVariables() {
    return program.undeclared();
  }

  /**
   * Whether the template walks over the parts of a message's content, the way vLLM 0.32 decides
   * between its content formats ({@code vllm/renderers/hf.py}).
   */
  public boolean iteratesOverContent() {
    return iteratesOverContent;
  }

  /**
   * Whether the template's source has the role of a developer in quotes, the way vLLM 0.32 decides
   * whether to rewrite such messages.
   */
  public boolean knowsDevelopers() {
    return knowsDevelopers;
  }

  /** Python's {@code text.strip()}. */
  public static String strip(String text) {
    return Unicode.strip(text);
  }

  /** Python's {@code text.rstrip()}. */
  public static String stripEnd(String text) {
    return Unicode.stripEnd(text);
  }
}
