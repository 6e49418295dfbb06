// SPDX-License-Identifier: Apache-2.0

/**
 * Reads a model's tokenizer folder ({@code tokenizer.json}, {@code tokenizer_config.json}, chat
 * templates) into values.
 *
 * <p>Start at {@link io.kvoy.tokenizer.files.TokenizerFolder}. Runs on the loader thread only; file
 * sizes are bounded; every problem is a {@link io.kvoy.tokenizer.files.FolderProblem} that says
 * what to do next.
 */
@NullMarked
package io.kvoy.tokenizer.files;

import org.jspecify.annotations.NullMarked;
