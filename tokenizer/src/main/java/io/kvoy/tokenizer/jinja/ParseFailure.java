// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * Ends the parsing of a template; becomes {@link TemplateParse.Unsupported} and never leaves this
 * package.
 */
final class ParseFailure extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final String feature;
  private final int line;
  private final String detail;

  private ParseFailure(String feature, int line, String detail) {
    super(detail, null, false, false);
    this.feature = feature;
    this.line = line;
    this.detail = detail;
  }

  /** Wrong in Jinja2 too. */
  static ParseFailure syntax(int line, String detail) {
    return new ParseFailure("syntax_error", line, detail);
  }

  /** Right in Jinja2, missing here. */
  static ParseFailure unsupported(String feature, int line, String detail) {
    return new ParseFailure(feature, line, detail);
  }

  TemplateParse.Unsupported toResult() {
    return new TemplateParse.Unsupported(feature, line, detail);
  }
}
