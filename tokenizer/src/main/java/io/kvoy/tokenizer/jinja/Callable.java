// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/** A value that can be called: a global function, a bound method, a macro. */
@FunctionalInterface
interface Callable {
  Object call(Render render, Args args);
}
