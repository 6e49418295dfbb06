// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.inference.ProductNames;
import io.kvoy.server.config.ConfigProblem.Kind;
import io.kvoy.server.config.ConfigRules.Bound;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Reads and checks a configuration file without starting anything.
 *
 * <p>Stateless; any thread. Reports every problem of the file in one go and never returns a part of
 * a file: a document with a problem makes the whole file {@link ConfigResult.Rejected}.
 */
public final class ConfigLoader {
  /** Largest file; 4096 workers with event endpoints need about 1 MiB. */
  static final int MAX_FILE_BYTES = 4 << 20;

  private static final Set<String> ENVELOPE = Set.of("apiVersion", "kind", "metadata", "spec");
  private static final Set<String> METADATA = Set.of("name", "labels", "annotations");

  /** Whether tokenizer folders and templates must exist on this machine. */
  public enum FileCheck {
    REQUIRE,
    IGNORE
  }

  private final Path source;
  private final Problems problems = new Problems();
  private final Binder binder = new Binder(problems);
  private @Nullable Bound<KvoyConfig> config;
  private @Nullable YamlNode firstConfig;
  private boolean sawPool;

  private ConfigLoader(Path source) {
    this.source = source;
  }

  /** Loads the file; the tokenizer folders it names must exist. */
  public static ConfigResult load(Path file) {
    return load(file, FileCheck.REQUIRE);
  }

  /** Loads the file. */
  public static ConfigResult load(Path file, FileCheck files) {
    return switch (read(file)) {
      case FileRead.Content(byte[] bytes) -> parse(bytes, file, files);
      case FileRead.Failed(ConfigProblem problem) -> new ConfigResult.Rejected(List.of(problem));
    };
  }

  /**
   * Checks the bytes of a file.
   *
   * @param source the file they came from; relative paths in it are read from its folder
   */
  public static ConfigResult parse(byte[] bytes, Path source, FileCheck files) {
    return new ConfigLoader(source.toAbsolutePath().normalize()).parse(bytes, files);
  }

  /** The bytes of a file or the reason why there are none. */
  sealed interface FileRead {
    @SuppressWarnings("ArrayRecordComponent") // Handed on, never compared.
    record Content(byte[] bytes) implements FileRead {}

    record Failed(ConfigProblem problem) implements FileRead {}
  }

  static FileRead read(Path file) {
    try (InputStream in = Files.newInputStream(file)) {
      byte[] bytes = in.readNBytes(MAX_FILE_BYTES + 1);
      return bytes.length > MAX_FILE_BYTES
          ? failed("file '%s' is larger than %d bytes".formatted(file, MAX_FILE_BYTES), "")
          : new FileRead.Content(bytes);
    } catch (NoSuchFileException _) {
      return failed("file '" + file + "' does not exist", "check the path given to --config");
    } catch (IOException e) {
      return failed("file '%s' cannot be read: %s".formatted(file, e.getMessage()), "");
    }
  }

  private static FileRead failed(String what, String advice) {
    return new FileRead.Failed(new ConfigProblem(Kind.UNREADABLE, what, "", 0, 0, advice));
  }

  static String hash(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has SHA-256", e);
    }
  }

  private ConfigResult parse(byte[] bytes, FileCheck files) {
    String text = decode(bytes);
    List<YamlNode> documents = text == null ? List.of() : YamlReader.read(text, problems);
    List<Envelope> envelopes = new ArrayList<>();
    for (int i = 0; i < documents.size(); i++) {
      Envelope envelope = envelope(documents.get(i), i);
      if (envelope != null) {
        envelopes.add(envelope);
      }
    }
    for (Envelope envelope : envelopes) {
      if (envelope.kind() == DocumentKind.KVOY_CONFIG) {
        bindConfig(envelope);
      }
    }
    KvoyConfig effective = ConfigRules.orDefaults(config);
    Path folder = source.getParent();
    Path root =
        folder == null
            ? effective.tokenizers().root()
            : folder.resolve(effective.tokenizers().root()).normalize();
    List<Bound<ModelPool>> pools = new ArrayList<>();
    for (Envelope envelope : envelopes) {
      if (envelope.kind() == DocumentKind.MODEL_POOL) {
        Record bound = bind(envelope, effective);
        if (bound instanceof ModelPool pool) {
          pools.add(new Bound<>(pool.resolvedAgainst(root), envelope.place(), envelope.node()));
        }
      }
    }
    checkTogether(pools, effective, files, text != null);
    if (!problems.isEmpty()) {
      return new ConfigResult.Rejected(problems.listed());
    }
    return new ConfigResult.Loaded(
        new KvoyConfigFile(
            source, hash(bytes), effective, pools.stream().map(Bound::value).toList()));
  }

  private void checkTogether(
      List<Bound<ModelPool>> pools, KvoyConfig effective, FileCheck files, boolean isText) {
    ConfigRules rules = new ConfigRules(problems, binder);
    if (config != null) {
      rules.check(config);
    }
    rules.check(pools, effective);
    if (files == FileCheck.REQUIRE) {
      rules.checkFiles(pools);
    }
    // A pool that cannot be read may hide in a file with other problems; do not guess then.
    if (!sawPool && isText && problems.isEmpty()) {
      problems.add(
          Kind.NO_POOL,
          "no document of kind ModelPool",
          "the file",
          0,
          0,
          "add one with at least one worker");
    }
  }

  private void bindConfig(Envelope envelope) {
    if (firstConfig != null) {
      problems.add(
          Kind.SECOND_CONFIG,
          "a second KvoyConfig",
          "the file",
          envelope.node(),
          "the first is at line " + firstConfig.line() + ", join the two");
    }
    Record bound = bind(envelope, null);
    if (firstConfig == null && bound instanceof KvoyConfig value) {
      config = new Bound<>(value, envelope.place(), envelope.node());
    }
    firstConfig = firstConfig == null ? envelope.node() : firstConfig;
  }

  private @Nullable Record bind(Envelope envelope, @Nullable KvoyConfig inheritFrom) {
    return binder.section(
        SectionShape.of(envelope.kind().type()),
        envelope.spec(),
        envelope.spec() == null ? envelope.node() : envelope.spec(),
        envelope.place(),
        Map.of("name", envelope.name()),
        inheritFrom);
  }

  /** A document whose head was understood. */
  private record Envelope(
      DocumentKind kind,
      String name,
      YamlNode.@Nullable Mapping spec,
      YamlNode.Mapping node,
      Binder.Place place) {}

  private @Nullable Envelope envelope(YamlNode document, int index) {
    if (!(document instanceof YamlNode.Mapping mapping)) {
      problems.add(
          Kind.WRONG_TYPE,
          "expected a mapping with apiVersion, kind, metadata and spec, saw " + document.seen(),
          "the file",
          document,
          "");
      return null;
    }
    DocumentKind kind = kind(mapping);
    if (kind == null) {
      return null;
    }
    sawPool |= kind == DocumentKind.MODEL_POOL;
    checkApiVersion(mapping, kind);
    refuseUnknown(mapping, ENVELOPE, kind.kind());
    String name = name(mapping, kind, "unnamed-" + index);
    YamlNode spec = mapping.get("spec");
    if (spec != null && !(spec instanceof YamlNode.Mapping)) {
      problems.add(
          Kind.WRONG_TYPE,
          "expected a mapping, saw " + spec.seen(),
          kind.kind() + ".spec",
          spec,
          "");
      return null;
    }
    return new Envelope(
        kind, name, (YamlNode.Mapping) spec, mapping, Binder.Place.root(index, kind.kind()));
  }

  private @Nullable DocumentKind kind(YamlNode.Mapping mapping) {
    YamlNode node = mapping.get("kind");
    if (!(node instanceof YamlNode.Scalar scalar)) {
      problems.add(
          Kind.UNKNOWN_KIND,
          node == null ? "field 'kind' is missing" : "expected a kind, saw " + node.seen(),
          "the document",
          node == null ? mapping : node,
          "known kinds: " + String.join(", ", DocumentKind.kinds()));
      return null;
    }
    DocumentKind kind = DocumentKind.of(scalar.text());
    if (kind == null) {
      String near = NearMiss.advice(scalar.text(), DocumentKind.kinds());
      problems.add(
          Kind.UNKNOWN_KIND,
          "unknown kind '" + scalar.shown() + "'",
          "the document",
          scalar,
          near.isEmpty() ? "known kinds: " + String.join(", ", DocumentKind.kinds()) : near);
    }
    return kind;
  }

  private void checkApiVersion(YamlNode.Mapping mapping, DocumentKind kind) {
    YamlNode node = mapping.get("apiVersion");
    if (!(node instanceof YamlNode.Scalar scalar
        && scalar.text().equals(ProductNames.API_VERSION))) {
      problems.add(
          Kind.UNKNOWN_KIND,
          node == null
              ? "field 'apiVersion' is missing"
              : "expected apiVersion '" + ProductNames.API_VERSION + "', saw " + node.seen(),
          kind.kind(),
          node == null ? mapping : node,
          node == null ? "expected '" + ProductNames.API_VERSION + "'" : "");
    }
  }

  /** The name, or {@code standIn} after recording what is wrong with it. */
  private String name(YamlNode.Mapping mapping, DocumentKind kind, String standIn) {
    YamlNode metadata = mapping.get("metadata");
    YamlNode name = null;
    if (metadata instanceof YamlNode.Mapping fields) {
      refuseUnknown(fields, METADATA, kind.kind() + ".metadata");
      name = fields.get("name");
    } else if (metadata != null) {
      problems.add(
          Kind.WRONG_TYPE,
          "expected a mapping, saw " + metadata.seen(),
          kind.kind() + ".metadata",
          metadata,
          "");
      return standIn;
    }
    if (name == null) {
      if (kind == DocumentKind.KVOY_CONFIG) {
        return "kvoy";
      }
      problems.add(
          Kind.MISSING_FIELD,
          "field 'name' is missing",
          kind.kind() + ".metadata",
          metadata == null ? mapping : metadata,
          "expected " + TextForm.RESOURCE_NAME.expected());
      return standIn;
    }
    if (name instanceof YamlNode.Scalar scalar
        && LeafType.Notation.TEXT.accepts(scalar)
        && TextForm.RESOURCE_NAME.accepts(scalar.text())) {
      return scalar.text();
    }
    problems.add(
        Kind.WRONG_TYPE,
        "expected " + TextForm.RESOURCE_NAME.expected() + ", saw " + name.seen(),
        kind.kind() + ".metadata.name",
        name,
        "");
    return standIn;
  }

  private void refuseUnknown(YamlNode.Mapping mapping, Set<String> known, String where) {
    for (YamlNode.Entry entry : mapping.entries()) {
      YamlNode.Scalar key = entry.key();
      if (!known.contains(key.text())) {
        problems.add(
            Kind.UNKNOWN_FIELD,
            "unknown field '" + key.shown() + "'",
            where,
            key,
            NearMiss.advice(key.text(), known));
      }
    }
  }

  /** The bytes as text, or null after recording where they are no UTF-8. */
  private @Nullable String decode(byte[] bytes) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    try {
      String text =
          StandardCharsets.UTF_8
              .newDecoder()
              .onMalformedInput(CodingErrorAction.REPORT)
              .onUnmappableCharacter(CodingErrorAction.REPORT)
              .decode(in)
              .toString();
      return text.startsWith("\uFEFF") ? text.substring(1) : text;
    } catch (CharacterCodingException _) {
      int line = 1;
      for (int i = 0; i < in.position(); i++) {
        line += bytes[i] == '\n' ? 1 : 0;
      }
      problems.add(
          Kind.UNREADABLE,
          "a byte sequence that is no UTF-8",
          "the file",
          line,
          0,
          "save the file as UTF-8");
      return null;
    }
  }
}
