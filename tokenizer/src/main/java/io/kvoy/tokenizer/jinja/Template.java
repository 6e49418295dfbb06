// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.time.Clock;
import java.util.Map;

/** A compiled template: immutable, shared by all threads. */
public final class Template {
  private Template() {}

  /** Compiles a template, once per model. */
  public static TemplateParse parse(String source) {
    return new TemplateParse.Unsupported("engine", 1, "");
  }

  /** Renders with these variables. Never throws for any variables. */
  public RenderResult render(Map<String, Json> variables, RenderLimits limits, Clock clock) {
    return new RenderResult.Unsupported("engine");
  }
}
