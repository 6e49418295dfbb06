// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a record component a field of the configuration file.
 *
 * <p>The one place where a field is described: the binder, the reload comparison and the generated
 * documentation all read it. Texts of values are spelled exactly as a user would write them in the
 * file ({@code 250ms}, {@code 32MiB}). Each field that holds a value says in exactly one way what
 * happens when it is left out: {@link #required}, {@link #fallback}, {@link #inherits} or {@link
 * #unset}.
 */
@Documented
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.RECORD_COMPONENT)
@interface Setting {

  /** What the field means and what it bounds, in Markdown, one or two sentences. */
  String doc();

  /** Whether leaving the field out is a problem. */
  boolean required() default false;

  /** The value used when the field is left out; empty when there is none. */
  String fallback() default "";

  /** Path of the {@link KvoyConfig} field whose value is used when this one is left out. */
  String inherits() default "";

  /** For fields that may stay empty: what happens then, in words. */
  String unset() default "";

  /** Smallest value allowed, inclusive; empty for no bound. */
  String min() default "";

  /** Largest value allowed, inclusive; empty for no bound. */
  String max() default "";

  /** Fewest items of a list. */
  int minItems() default 0;

  /** Most items of a list or map, so that a file cannot make the server build without bound. */
  int maxItems() default 256;

  /** Form of a text field or of each text in a list. */
  TextForm form() default TextForm.LINE;

  /** Whether a change takes effect only at the next start. */
  boolean restart() default false;
}
