// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A macro, or the body of a call block, with the variables that it was defined among. Belongs to
 * one render.
 */
final class MacroValue implements Callable {

  /** A parameter; {@code fallback} is null when it has no default. */
  record Parameter(String name, int slot, @Nullable Expr fallback) {}

  /**
   * What is the same for all renders.
   *
   * @param name null for the body of a call block
   * @param callerSlot -1 unless the body speaks of {@code caller}; so for the other two
   * @param catchesCaller whether the body speaks of {@code caller}, as a parameter or not
   */
  record Code(
      @Nullable String name,
      Symbols.Function function,
      List<Parameter> parameters,
      boolean catchesCaller,
      int callerSlot,
      int kwargsSlot,
      int varargsSlot,
      Stmt.Enter enter,
      Stmt body) {
    boolean hasParameter(String name) {
      return parameters.stream().anyMatch(parameter -> parameter.name.equals(name));
    }
  }

  private final Code code;
  private final Frame outer;

  MacroValue(Code code, Frame outer) {
    this.code = code;
    this.outer = outer;
  }

  @Nullable String name() {
    return code.name;
  }

  @Nullable Object attribute(String attribute) {
    return switch (attribute) {
      case "name" -> code.name == null ? None.NONE : code.name;
      case "arguments" -> new PyList(code.parameters.stream().map(p -> (Object) p.name).toList());
      case "catch_kwargs" -> code.kwargsSlot >= 0;
      case "catch_varargs" -> code.varargsSlot >= 0;
      case "caller" -> code.catchesCaller;
      case "explicit_caller" -> code.hasParameter("caller");
      default -> null;
    };
  }

  @Override
  public Object call(Render render, Args args) {
    render.enter();
    Frame frame = new Frame(render, outer, code.function.size());
    bind(frame, args);
    code.enter.run(frame);
    for (Parameter parameter : code.parameters) {
      if (frame.slots[parameter.slot] == Frame.MISSING) {
        frame.slots[parameter.slot] =
            parameter.fallback == null ? Undefined.MISSING : parameter.fallback.eval(frame);
      }
    }
    StringBuilder out = new StringBuilder();
    code.body.run(frame, out);
    render.leave();
    return out.toString();
  }

  private void bind(Frame frame, Args args) {
    int given = Math.min(args.count(), code.parameters.size());
    for (int i = 0; i < given; i++) {
      frame.slots[code.parameters.get(i).slot] = args.positional().get(i);
    }
    Map<String, Object> keywords =
        args.keywords().isEmpty() ? Map.of() : new LinkedHashMap<>(args.keywords());
    for (int i = given; i < code.parameters.size() && !keywords.isEmpty(); i++) {
      Parameter parameter = code.parameters.get(i);
      Object value = keywords.remove(parameter.name);
      if (value != null) {
        frame.slots[parameter.slot] = value;
      }
    }
    if (code.callerSlot >= 0) {
      Object caller = keywords.isEmpty() ? null : keywords.remove("caller");
      frame.slots[code.callerSlot] = caller == null ? Undefined.MISSING : caller;
    }
    if (code.kwargsSlot >= 0) {
      PyDict dict = new PyDict();
      keywords.forEach(dict::put);
      frame.slots[code.kwargsSlot] = dict;
    } else if (!keywords.isEmpty()) {
      throw TemplateError.type();
    }
    if (code.varargsSlot >= 0) {
      frame.slots[code.varargsSlot] =
          new PyTuple(args.positional().subList(given, args.count()), false);
    } else if (args.count() > code.parameters.size()) {
      throw TemplateError.type();
    }
  }
}
