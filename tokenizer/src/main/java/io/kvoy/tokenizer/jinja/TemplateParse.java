// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/** What became of a template's source. */
public sealed interface TemplateParse {

  /** Usable. */
  record Parsed(Template template) implements TemplateParse {}

  /**
   * Not usable here.
   *
   * @param feature short metric-safe word: the missing feature, or {@code syntax_error}
   * @param line line of the source, from 1
   * @param detail for the person who configured the template; holds template text only
   */
  record Unsupported(String feature, int line, String detail) implements TemplateParse {}
}
