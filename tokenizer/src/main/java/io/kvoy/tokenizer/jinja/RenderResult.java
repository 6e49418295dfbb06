// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/** What became of a template and its variables. */
public sealed interface RenderResult {

  /** The text that the worker renders. */
  record Rendered(String text) implements RenderResult {}

  /**
   * The template called {@code raise_exception}, or the chat rules in front of it refused the
   * request: the worker answers 400.
   *
   * @param message the worker's own words; may quote the request, so it is never logged
   */
  record Refused(String message) implements RenderResult {}

  /**
   * Not rendered because something is beyond this engine; the worker may well render it.
   *
   * @param feature short metric-safe word such as {@code filter_random} or {@code limit_steps}
   */
  record Unsupported(String feature) implements RenderResult {}

  /**
   * The template failed on these values the way it fails in Python (a missing attribute, a wrong
   * type): the worker answers 400 as well.
   *
   * @param kind short metric-safe word such as {@code undefined_error} or {@code type_error}
   */
  record Failed(String kind) implements RenderResult {}
}
