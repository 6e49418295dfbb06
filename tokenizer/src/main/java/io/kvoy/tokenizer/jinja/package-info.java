// SPDX-License-Identifier: Apache-2.0

/**
 * Jinja2 as chat templates use it: text to template, values to text, equal to Python's engine.
 *
 * <p>Start at {@link io.kvoy.tokenizer.jinja.Template}: {@code parse} turns source into a template
 * or says which feature is missing, {@code render} turns variables into a {@link
 * io.kvoy.tokenizer.jinja.RenderResult}. The way of a template: {@code Lexer} → {@code Parser} →
 * {@code Node} (syntax) → {@code Compiler} with {@code Symbols} (which name lives in which slot) →
 * {@code Expr} and {@code Stmt} (executable tree). Values follow Python ({@code Values}). Nothing
 * here knows chats, models or I/O. A template is immutable and shared; each render has its own
 * {@code Render}.
 */
@NullMarked
package io.kvoy.tokenizer.jinja;

import org.jspecify.annotations.NullMarked;
