// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.fail;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.JsonWriter;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** What real vLLM 0.32 workers did, and the tokenizers that they did it with. */
final class Vectors {
  private Vectors() {}

  static List<Json.Obj> lines(String name) {
    try (InputStream in = Objects.requireNonNull(resource(name)).openStream()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8)
          .lines()
          .map(Vectors::object)
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Path file(String name) {
    try {
      return Path.of(Objects.requireNonNull(resource(name)).toURI());
    } catch (URISyntaxException e) {
      throw new IllegalStateException(e);
    }
  }

  private static @Nullable URL resource(String name) {
    return Vectors.class.getResource("/vectors/" + name);
  }

  static Json.Obj object(String text) {
    return switch (new JsonReader(JsonLimits.DEFAULTS)
        .read(text.getBytes(StandardCharsets.UTF_8))) {
      case JsonRead.Document document when document.value() instanceof Json.Obj object -> object;
      case JsonRead.Document _, JsonRead.Failure _ -> fail("no JSON object: %s", text);
    };
  }

  static Json field(Json.Obj line, String name) {
    return Objects.requireNonNull(line.get(name), name);
  }

  static String text(Json.Obj line, String name) {
    return Objects.requireNonNull(field(line, name).asString(), name);
  }

  static long number(Json.Obj line, String name) {
    return field(line, name) instanceof Json.Int(long value) ? value : fail("no number: %s", name);
  }

  static String compact(Json value) {
    return JsonWriter.text(value);
  }

  /**
   * A folder that {@code make tools} fetches. Property or variable {@code KVOY_LOCAL} names where
   * they are; else it is {@code .local} at the root.
   */
  static String tokenizer(String name) {
    String named = System.getProperty("KVOY_LOCAL", System.getenv("KVOY_LOCAL"));
    Path local = named == null ? root().resolve(".local") : Path.of(named);
    Path folder = local.resolve("tokenizers").resolve(name).resolve("models");
    if (!Files.exists(folder.resolve("tokenizer.json"))) {
      fail("no tokenizer.json in %s: run 'make tools', or point KVOY_LOCAL at its folder", folder);
    }
    return folder.toString();
  }

  static Path root() {
    Path folder = Path.of("").toAbsolutePath();
    while (!Files.exists(folder.resolve(".git")) && !Files.exists(folder.resolve("Makefile"))) {
      folder = Objects.requireNonNull(folder.getParent(), "no repository around this folder");
    }
    return folder;
  }
}
