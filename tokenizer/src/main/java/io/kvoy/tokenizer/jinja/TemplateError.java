// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * Ends a render; becomes a {@link RenderResult} at the border and never leaves this package. Python
 * raises exceptions in the same places, and a render has no other way out of nested loops and
 * macros. Carries no stack trace and no text of the request, except for what the template itself
 * passes to {@code raise_exception}.
 */
final class TemplateError extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final transient RenderResult result;

  private TemplateError(RenderResult result) {
    super(null, null, false, false);
    this.result = result;
  }

  RenderResult result() {
    return result;
  }

  static TemplateError refused(String message) {
    return new TemplateError(new RenderResult.Refused(message));
  }

  static TemplateError unsupported(String feature) {
    return new TemplateError(new RenderResult.Unsupported(feature));
  }

  static TemplateError undefined() {
    return new TemplateError(new RenderResult.Failed("undefined_error"));
  }

  static TemplateError security() {
    return new TemplateError(new RenderResult.Failed("security_error"));
  }

  static TemplateError type() {
    return new TemplateError(new RenderResult.Failed("type_error"));
  }

  static TemplateError value() {
    return new TemplateError(new RenderResult.Failed("value_error"));
  }

  static TemplateError overflow() {
    return new TemplateError(new RenderResult.Failed("overflow_error"));
  }

  static TemplateError zeroDivision() {
    return new TemplateError(new RenderResult.Failed("zero_division_error"));
  }

  static TemplateError lookup() {
    return new TemplateError(new RenderResult.Failed("lookup_error"));
  }

  /**
   * Jinja2's own complaints: unknown filters, assignments to what is no namespace, wrong filter
   * arguments.
   */
  static TemplateError runtime() {
    return new TemplateError(new RenderResult.Failed("template_error"));
  }
}
