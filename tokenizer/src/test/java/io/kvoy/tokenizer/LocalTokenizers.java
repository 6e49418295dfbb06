// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.fail;

import io.kvoy.tokenizer.encode.DjlTextEncoder;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * The real tokenizer folders that {@code make tools} fetches; they are too big to be checked in.
 */
public final class LocalTokenizers {

  /** Every family at hand. */
  public static final List<String> NAMES =
      List.of("qwen3", "llama3_1", "gemma3", "deepseek_v3", "gptoss");

  private static final Map<String, DjlTextEncoder> DJL = new ConcurrentHashMap<>();

  private LocalTokenizers() {}

  /** The folder with that family's {@code tokenizer.json}; fails the test when it is not there. */
  public static Path path(String name) {
    Path path = local().resolve("tokenizers").resolve(name).resolve("models");
    if (!Files.exists(path.resolve("tokenizer.json"))) {
      fail("no tokenizer.json in %s: run 'make tools', or point KVOY_LOCAL at its folder", path);
    }
    return path;
  }

  /** The folder with Mistral's own {@code tekken.json}; fails the test when it is not there. */
  public static Path tekken() {
    Path path = local().resolve("tokenizers/tekken/models");
    if (!Files.exists(path.resolve("tekken.json"))) {
      fail("no tekken.json in %s: run 'make tools', or point KVOY_LOCAL at its folder", path);
    }
    return path;
  }

  /** That family's folder, read afresh. */
  public static TokenizerFolder folder(String name) {
    return switch (TokenizerFolderReader.read(path(name))) {
      case FolderRead.Complete(TokenizerFolder folder) -> folder;
      case FolderRead.Unusable(var problem) -> fail(problem.oneLine());
    };
  }

  /** That family's reference encoder, shared by all tests of this JVM and never closed. */
  public static DjlTextEncoder djl(String name) {
    return DJL.computeIfAbsent(name, key -> createDjl(folder(key).tokenizerJson()));
  }

  /** A reference encoder of the caller's own. */
  public static DjlTextEncoder createDjl(String tokenizerJson) {
    return switch (DjlTextEncoder.create(tokenizerJson)) {
      case DjlTextEncoder.Creation.Created(DjlTextEncoder encoder) -> encoder;
      case DjlTextEncoder.Creation.Refused(String why) -> fail(why);
    };
  }

  private static Path local() {
    String named = System.getProperty("KVOY_LOCAL", System.getenv("KVOY_LOCAL"));
    if (named != null) {
      return Path.of(named);
    }
    @Nullable Path folder = Path.of("").toAbsolutePath();
    while (folder != null
        && !Files.exists(folder.resolve(".git"))
        && !Files.exists(folder.resolve("Makefile"))) {
      folder = folder.getParent();
    }
    return (folder == null ? Path.of("") : folder).resolve(".local");
  }
}
