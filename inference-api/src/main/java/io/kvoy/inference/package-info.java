// SPDX-License-Identifier: Apache-2.0

/**
 * The client's language, free of any transport: what a request asks for, whichever API it was
 * written in.
 *
 * <p>Start at {@link io.kvoy.inference.InferenceRequest}, then {@link io.kvoy.inference.Prompt}.
 * Dialects ({@code dialect}) make these values from bytes; streams ({@code stream}) read the
 * answers. Everything here is immutable and may be read from any thread. Nothing here knows a
 * socket, a tokenizer or a worker.
 */
@NullMarked
package io.kvoy.inference;

import org.jspecify.annotations.NullMarked;
