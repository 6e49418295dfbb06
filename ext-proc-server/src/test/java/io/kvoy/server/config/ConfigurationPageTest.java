// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ProductNames;
import io.kvoy.server.config.ConfigLoader.FileCheck;
import io.kvoy.server.config.SectionShape.Arity;
import io.kvoy.server.config.SectionShape.Field;
import io.kvoy.server.docs.GeneratedPage;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Keeps {@code docs/configuration.md} and the declarations of the settings honest. */
class ConfigurationPageTest {
  private static final String SMALLEST =
      """
      apiVersion: inference.kvoy.io/v1alpha1
      kind: ModelPool
      metadata: {name: chat}
      spec:
        tokenizer: models/qwen3
        workers:
        - address: 10.0.0.7:8000
          kvEvents: {discover: true}
        - address: 10.0.0.8:8000
          kvEvents: {endpoint: "tcp://10.0.0.8:5557", replayEndpoint: "tcp://10.0.0.8:5558"}
      """;

  @Test
  void pageSaysWhatTheDeclarationsSay() {
    GeneratedPage.assertUpToDate("configuration.md", page());
  }

  @Test
  void exampleOnThePageIsAcceptable() {
    assertThat(
            ConfigLoader.parse(
                SMALLEST.getBytes(StandardCharsets.UTF_8), Path.of("/k.yaml"), FileCheck.IGNORE))
        .isInstanceOf(ConfigResult.Loaded.class);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("values")
  void everyValueSaysInOneWayWhatHappensWithoutIt(String path, Field field) {
    Setting setting = field.setting();

    assertThat(
            Stream.of(
                    setting.required(),
                    !setting.fallback().isEmpty(),
                    !setting.inherits().isEmpty(),
                    !setting.unset().isEmpty())
                .filter(said -> said))
        .as(path)
        .hasSize(1);
    assertThat(setting.doc()).as(path).endsWith(".").hasSizeGreaterThan(10);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("values")
  void textsOfValuesAreSpelledAsTheyAreWrittenBack(String path, Field field) {
    LeafType<?> leaf = field.leaf();
    if (leaf != null) {
      for (String text :
          List.of(field.setting().fallback(), field.setting().min(), field.setting().max())) {
        if (!text.isEmpty()) {
          assertThat(roundTrip(leaf, text)).as(path).isEqualTo(text);
        }
      }
    }
  }

  private static <T> String roundTrip(LeafType<T> leaf, String text) {
    T value = leaf.parse().apply(text);
    return value == null ? "no value" : leaf.write().apply(value);
  }

  static Stream<Arguments> values() {
    List<Arguments> values = new ArrayList<>();
    for (DocumentKind kind : DocumentKind.values()) {
      collect(kind.kind() + ".spec", SectionShape.of(kind.type()), values);
    }
    return values.stream();
  }

  private static void collect(String path, SectionShape shape, List<Arguments> values) {
    for (Field field : shape.fields()) {
      String at = path + "." + field.name();
      boolean isSection = field.leaf() == null;
      if (!isSection || field.arity() != Arity.ONE) {
        values.add(Arguments.of(at, field));
      }
      if (isSection) {
        collect(at, field.section(), values);
      }
    }
  }

  private static String page() {
    StringBuilder page = new StringBuilder();
    page.append(
        """
        # Configuration

        This page is written from the declarations in `io.kvoy.server.config` by \
        `ConfigurationPageTest`; change those, not this page.

        `kvoy-server --config kvoy.yaml` reads one file with one or more YAML documents. The \
        smallest useful one:

        ```yaml
        """);
    page.append(SMALLEST);
    page.append(
        """
        ```

        Rules of the file:

        - Each document has `apiVersion: %s`, a `kind`, `metadata.name` (of `KvoyConfig`: \
        optional) and a `spec`. `metadata.labels` and `metadata.annotations` are allowed and not \
        read.
        - Durations carry their unit (`ns`, `us`, `ms`, `s`, `m`, `h`, `d`), sizes too (`B`, \
        `KiB`, `MiB`, `GiB`).
        - Every problem of a file is reported at once, each with its line. Unknown fields, keys \
        written twice, YAML tags, merge keys (`<<`) and `${VARIABLES}` are refused; aliases are \
        allowed.
        - A file is at most %d bytes, %d levels deep and %d values large, those that aliases \
        repeat included.
        - The file is watched. A right change is taken as a whole; a wrong one is logged and \
        counted (`kvoy_config_reloads_total`) while the last right one stays in force. Fields \
        marked *at restart* keep their old value until the next start.
        """
            .formatted(
                ProductNames.API_VERSION,
                ConfigLoader.MAX_FILE_BYTES,
                YamlReader.MAX_DEPTH,
                YamlReader.MAX_NODES));
    for (DocumentKind kind : DocumentKind.values()) {
      page.append("\n## ").append(kind.kind()).append("\n\n").append(kind.doc()).append('\n');
      sections(page, "spec", SectionShape.of(kind.type()));
    }
    return page.toString();
  }

  private static void sections(StringBuilder page, String path, SectionShape shape) {
    List<Field> values =
        shape.fields().stream()
            .filter(field -> field.leaf() != null || field.arity() != Arity.ONE)
            .toList();
    if (!values.isEmpty()) {
      page.append("\n### ").append(path).append("\n\n");
      page.append("| field | type | default | range | change | meaning |\n");
      page.append("| --- | --- | --- | --- | --- | --- |\n");
      for (Field field : values) {
        row(page, field);
      }
    }
    for (Field field : shape.fields()) {
      if (field.leaf() == null) {
        String below = path + "." + field.name() + (field.arity() == Arity.LIST ? "[]" : "");
        sections(page, below, field.section());
      }
    }
  }

  private static void row(StringBuilder page, Field field) {
    Setting setting = field.setting();
    page.append("| `")
        .append(field.name())
        .append("` | ")
        .append(type(field))
        .append(" | ")
        .append(absent(setting))
        .append(" | ")
        .append(range(field))
        .append(" | ")
        .append(setting.restart() ? "at restart" : "live")
        .append(" | ")
        .append(setting.doc())
        .append(" |\n");
  }

  private static String type(Field field) {
    LeafType<?> leaf = field.leaf();
    String one = leaf == null ? "section" : leaf.label();
    return switch (field.arity()) {
      case ONE, OPTIONAL -> one;
      case LIST -> "list of " + one;
      case MAP -> one + " by name";
    };
  }

  private static String absent(Setting setting) {
    if (setting.required()) {
      return "**required**";
    }
    if (!setting.fallback().isEmpty()) {
      return "`" + setting.fallback() + "`";
    }
    return setting.inherits().isEmpty()
        ? setting.unset()
        : "`KvoyConfig` `" + setting.inherits() + "`";
  }

  private static String range(Field field) {
    Setting setting = field.setting();
    List<String> bounds = new ArrayList<>();
    if (!setting.min().isEmpty() || !setting.max().isEmpty()) {
      bounds.add("`" + setting.min() + "` to `" + setting.max() + "`");
    }
    if (field.element() == String.class || field.arity() == Arity.MAP) {
      bounds.add(setting.form().expected());
    }
    LeafType<?> leaf = field.leaf();
    if (leaf != null && field.element().isEnum()) {
      bounds.add(leaf.expected());
    }
    if (field.arity() == Arity.LIST || field.arity() == Arity.MAP) {
      bounds.add(setting.minItems() + " to " + setting.maxItems() + " items");
    }
    return String.join(", ", bounds);
  }
}
