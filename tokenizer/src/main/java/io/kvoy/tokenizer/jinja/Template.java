// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.time.Clock;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

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

  private final String source;
  private final List<Node.Statement> syntax;
  private final Compiler.Program program;
  private final boolean usesGeneration;

  private Template(String source, List<Node.Statement> syntax, Compiler.Program program) {
    this.source = source;
    this.syntax = syntax;
    this.program = program;
    this.usesGeneration = syntax.stream().anyMatch(Template::usesGeneration);
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
    Map<String, Object> values = HashMap.newHashMap(variables.size());
    try {
      variables.forEach((name, value) -> values.put(name, Values.fromJson(value)));
      Render render = new Render(limits, clock, values, isPlain);
      Frame frame = new Frame(render, null, program.function().size());
      program.enter().run(frame);
      StringBuilder out = new StringBuilder(1024);
      program.body().run(frame, out);
      return new RenderResult.Rendered(out.toString());
    } catch (TemplateError error) {
      return error.result();
    } catch (StackOverflowError e) {
      return new RenderResult.Unsupported("limit_depth");
    }
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
    return ContentLoops.found(syntax);
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
