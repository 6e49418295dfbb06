// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * What {@code make tools} and {@code make tools-vllm} fetched.
 *
 * @param folder system property or environment variable KVOY_LOCAL, else {@code .local} in the
 *     repository
 */
public record LocalTools(Path folder) {
  /**
   * The folder for this process.
   *
   * @throws IllegalStateException when KVOY_LOCAL is not set and the working directory is outside
   *     the repository
   */
  public static LocalTools find() {
    String set = System.getProperty("KVOY_LOCAL", System.getenv("KVOY_LOCAL"));
    if (set != null) {
      return new LocalTools(Path.of(set).toAbsolutePath());
    }
    for (@Nullable Path at = Path.of("").toAbsolutePath(); at != null; at = at.getParent()) {
      if (Files.exists(at.resolve("Makefile"))) {
        return new LocalTools(at.resolve(".local"));
      }
    }
    throw new IllegalStateException(
        "no folder with a Makefile above " + Path.of("").toAbsolutePath() + "; set KVOY_LOCAL");
  }

  /** The Envoy binary: KVOY_ENVOY when that is set, else the fetched one. */
  public Path envoy() {
    String own = System.getenv("KVOY_ENVOY");
    return executable(
        own != null ? Path.of(own) : folder.resolve("envoy-venv/bin/envoy"), "make tools");
  }

  /** The Python that has vLLM. */
  public Path vllmPython() {
    return executable(folder.resolve("vllm-venv/bin/python"), "make tools-vllm");
  }

  /** A model folder made by {@code tools/make-tiny-model.py}, such as {@code tiny-qwen3}. */
  public Path model(String name) {
    return existing(folder.resolve("models").resolve(name), "config.json", "make tools-vllm");
  }

  /**
   * Folder with {@code tokenizer.json} and {@code tokenizer_config.json} of a fetched tokenizer,
   * such as {@code qwen3}.
   */
  public Path tokenizer(String name) {
    return existing(
        folder.resolve("tokenizers").resolve(name).resolve("models"),
        "tokenizer.json",
        "make tools");
  }

  private static Path executable(Path file, String remedy) {
    if (!Files.isExecutable(file)) {
      throw new IllegalStateException(file + " is not there or not executable; run: " + remedy);
    }
    return file;
  }

  private static Path existing(Path folder, String inside, String remedy) {
    if (!Files.isRegularFile(folder.resolve(inside))) {
      throw new IllegalStateException("no " + inside + " in " + folder + "; run: " + remedy);
    }
    return folder;
  }
}
