// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.server.config.ConfigProblem.Kind;
import io.kvoy.server.config.LeafType.Notation;
import io.kvoy.server.config.SectionShape.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Turns YAML trees into the record tree, guided by {@link SectionShape}.
 *
 * <p>Never stops at the first problem: a value that cannot be read counts as absent from the record
 * (which is then not built) while its neighbours are still checked. Remembers where each field
 * stands, so that rules over several fields can point at the line.
 */
final class Binder {
  private final Problems problems;
  private final Map<String, YamlNode> places = new HashMap<>();

  Binder(Problems problems) {
    this.problems = problems;
  }

  /** The section with every field at its default and {@code name} as its name. */
  static <R extends Record> R defaults(Class<R> type, String name) {
    Problems problems = new Problems();
    Record section =
        new Binder(problems)
            .section(
                SectionShape.of(type),
                null,
                new YamlNode.Mapping(List.of(), 0, 0),
                Place.root(0, type.getSimpleName()),
                Map.of("name", name),
                null);
    if (section == null) {
      throw new IllegalStateException(
          type.getSimpleName() + " has no defaults: " + problems.listed());
    }
    return type.cast(section);
  }

  /**
   * A part of a document.
   *
   * @param document index of the document in the file, as two pools look the same otherwise
   * @param text as shown to people
   */
  record Place(int document, String text) {
    static Place root(int document, String kind) {
      return new Place(document, kind + ".spec");
    }

    Place field(String name) {
      return new Place(document, text + "." + name);
    }

    Place item(int index) {
      return new Place(document, text + "[" + index + "]");
    }

    private String key() {
      return document + "#" + text;
    }
  }

  /** Where the field stands in the file; {@code fallback} when it was left out. */
  YamlNode placeOf(Place within, YamlNode fallback) {
    return places.getOrDefault(within.key(), fallback);
  }

  /**
   * Binds one section.
   *
   * @param mapping what the file says, null when it says nothing
   * @param around the node to blame for what is missing
   * @param given values of components that are no fields
   * @param inheritFrom where inherited values come from; null as long as there is none
   * @return null when there was a problem in it
   */
  @Nullable Record section(
      SectionShape shape,
      YamlNode.@Nullable Mapping mapping,
      YamlNode around,
      Place within,
      Map<String, Object> given,
      @Nullable KvoyConfig inheritFrom) {
    Map<String, Object> values = new LinkedHashMap<>(given);
    boolean complete = true;
    if (mapping != null) {
      complete = refuseUnknown(mapping, shape, within);
    }
    for (Field field : shape.fields()) {
      YamlNode node = mapping == null ? null : mapping.get(field.name());
      Place at = within.field(field.name());
      Object value =
          node == null
              ? absent(field, around, within, at, inheritFrom)
              : present(field, node, at, inheritFrom);
      if (value == null) {
        complete = false;
      } else {
        values.put(field.name(), value);
      }
    }
    return complete ? shape.build(values) : null;
  }

  private boolean refuseUnknown(YamlNode.Mapping mapping, SectionShape shape, Place within) {
    boolean known = true;
    for (YamlNode.Entry entry : mapping.entries()) {
      YamlNode.Scalar key = entry.key();
      if (shape.field(key.text()) == null) {
        known = false;
        problems.add(
            Kind.UNKNOWN_FIELD,
            "unknown field '" + key.shown() + "'",
            within.text(),
            key,
            adviceFor(key.text(), shape, within));
      }
    }
    return known;
  }

  private static String adviceFor(String word, SectionShape shape, Place within) {
    String near = NearMiss.advice(word, shape.names());
    if (!near.isEmpty()) {
      return near;
    }
    int dot = within.text().indexOf('.');
    DocumentKind kind = DocumentKind.of(within.text().substring(0, dot));
    String elsewhere = kind == null ? null : SectionShape.of(kind.type()).pathTo(word);
    return elsewhere == null
        ? "known fields: " + String.join(", ", shape.names())
        : "it belongs to spec." + elsewhere;
  }

  private @Nullable Object absent(
      Field field, YamlNode around, Place within, Place at, @Nullable KvoyConfig inheritFrom) {
    Setting setting = field.setting();
    if (setting.required()) {
      problems.add(
          Kind.MISSING_FIELD,
          "field '" + field.name() + "' is missing",
          within.text(),
          around,
          "expected " + expected(field));
      return null;
    }
    return switch (field.arity()) {
      case OPTIONAL -> Optional.empty();
      case LIST -> List.of();
      case MAP -> Map.of();
      case ONE -> {
        LeafType<?> leaf = field.leaf();
        if (leaf == null) {
          yield section(field.section(), null, around, at, Map.of(), inheritFrom);
        }
        if (!setting.inherits().isEmpty()) {
          yield inherited(
              inheritFrom == null ? KvoyConfig.allDefaults() : inheritFrom, setting.inherits());
        }
        if (setting.fallback().isEmpty() && field.element() == String.class) {
          yield "";
        }
        yield Objects.requireNonNull(
            leaf.parse().apply(setting.fallback()), () -> at.text() + " has no valid default");
      }
    };
  }

  private static Object inherited(Record config, String dottedPath) {
    Object value = config;
    for (String name : dottedPath.split("\\.", -1)) {
      Record section = (Record) value;
      Field field = SectionShape.of(section.getClass()).field(name);
      value = Objects.requireNonNull(field, () -> "no field '" + dottedPath + "'").valueIn(section);
    }
    return value;
  }

  private @Nullable Object present(
      Field field, YamlNode node, Place at, @Nullable KvoyConfig inheritFrom) {
    places.put(at.key(), node);
    return switch (field.arity()) {
      case ONE -> one(field, node, at, inheritFrom);
      case OPTIONAL -> {
        Object value = one(field, node, at, inheritFrom);
        yield value == null ? null : Optional.of(value);
      }
      case LIST -> list(field, node, at, inheritFrom);
      case MAP -> map(field, node, at, inheritFrom);
    };
  }

  private @Nullable Object one(
      Field field, YamlNode node, Place at, @Nullable KvoyConfig inheritFrom) {
    LeafType<?> leaf = field.leaf();
    if (leaf != null) {
      return leaf(leaf, field.setting(), node, at);
    }
    if (!(node instanceof YamlNode.Mapping mapping)) {
      wrongType("a mapping", node, at, "");
      return null;
    }
    return section(field.section(), mapping, mapping, at, Map.of(), inheritFrom);
  }

  private @Nullable Object list(
      Field field, YamlNode node, Place at, @Nullable KvoyConfig inheritFrom) {
    if (!(node instanceof YamlNode.Sequence sequence)) {
      wrongType(expected(field), node, at, "");
      return null;
    }
    if (!hasAllowedSize(field.setting(), sequence.items().size(), node, at)) {
      return null;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 0; i < sequence.items().size(); i++) {
      YamlNode item = sequence.items().get(i);
      Place itemAt = at.item(i);
      places.put(itemAt.key(), item);
      Object value = one(field, item, itemAt, inheritFrom);
      if (value != null) {
        values.add(value);
      }
    }
    return values.size() == sequence.items().size() ? values : null;
  }

  private @Nullable Object map(
      Field field, YamlNode node, Place at, @Nullable KvoyConfig inheritFrom) {
    if (!(node instanceof YamlNode.Mapping mapping)) {
      wrongType(expected(field), node, at, "");
      return null;
    }
    if (!hasAllowedSize(field.setting(), mapping.entries().size(), node, at)) {
      return null;
    }
    Map<String, Object> values = new LinkedHashMap<>();
    for (YamlNode.Entry entry : mapping.entries()) {
      String key = entry.key().text();
      if (!field.setting().form().accepts(key)) {
        wrongType(field.setting().form().expected() + " as key", entry.key(), at, "");
        continue;
      }
      Object value = one(field, entry.value(), at.field(key), inheritFrom);
      if (value != null) {
        values.put(key, value);
      }
    }
    return values.size() == mapping.entries().size() ? values : null;
  }

  private boolean hasAllowedSize(Setting setting, int size, YamlNode node, Place at) {
    if (size < setting.minItems() || size > setting.maxItems()) {
      problems.add(
          Kind.OUT_OF_RANGE,
          "expected %d to %d items, saw %d".formatted(setting.minItems(), setting.maxItems(), size),
          at.text(),
          node,
          "");
      return false;
    }
    return true;
  }

  private <T> @Nullable T leaf(LeafType<T> leaf, Setting setting, YamlNode node, Place at) {
    boolean plainText = leaf.label().equals("text");
    String expected = plainText ? setting.form().expected() : leaf.expected();
    if (!(node instanceof YamlNode.Scalar scalar)) {
      wrongType(expected, node, at, "");
      return null;
    }
    if (scalar.text().contains("${")) {
      problems.add(
          Kind.WRONG_TYPE,
          "expected " + expected + ", saw " + scalar.seen(),
          at.text(),
          scalar,
          "environment variables are not put in; write the value itself");
      return null;
    }
    T value = leaf.parse().apply(scalar.text());
    boolean isWellFormed = value != null && (!plainText || setting.form().accepts(scalar.text()));
    if (value == null || !isWellFormed || !leaf.notation().accepts(scalar)) {
      String advice =
          scalar.isNull()
              ? "remove the key to get the default"
              : isWellFormed ? adviceFor(leaf.notation()) : "";
      wrongType(expected, scalar, at, advice);
      return null;
    }
    return isInRange(leaf, value, setting, scalar, at) ? value : null;
  }

  private <T> boolean isInRange(
      LeafType<T> leaf, T value, Setting setting, YamlNode.Scalar scalar, Place at) {
    if (isBeyond(leaf, value, setting.min(), -1) || isBeyond(leaf, value, setting.max(), 1)) {
      String range =
          setting.max().isEmpty()
              ? setting.min() + " or more"
              : setting.min().isEmpty()
                  ? setting.max() + " or less"
                  : setting.min() + " to " + setting.max();
      problems.add(
          Kind.OUT_OF_RANGE, "expected " + range + ", saw " + scalar.seen(), at.text(), scalar, "");
      return false;
    }
    return true;
  }

  /** Whether {@code value} lies on the {@code side} (-1 below, 1 above) of a written bound. */
  @SuppressWarnings("unchecked") // Only settings of comparable types have bounds.
  private static <T> boolean isBeyond(LeafType<T> leaf, T value, String bound, int side) {
    if (bound.isEmpty()) {
      return false;
    }
    T limit =
        Objects.requireNonNull(
            leaf.parse().apply(bound), () -> "bound '" + bound + "' is no value");
    return Integer.signum(((Comparable<T>) value).compareTo(limit)) == side;
  }

  private void wrongType(String expected, YamlNode node, Place at, String advice) {
    problems.add(
        Kind.WRONG_TYPE, "expected " + expected + ", saw " + node.seen(), at.text(), node, advice);
  }

  /** How to make YAML read a well-formed value as what was meant. */
  private static String adviceFor(Notation notation) {
    return switch (notation) {
      case TEXT -> "if it is meant as text, quote it";
      case NUMBER, BOOLEAN -> "remove the quotes";
      case TEXT_OR_NUMBER -> "";
    };
  }

  private static String expected(Field field) {
    LeafType<?> leaf = field.leaf();
    String one =
        leaf == null
            ? "mapping"
            : leaf.label().equals("text") ? field.setting().form().expected() : leaf.expected();
    return switch (field.arity()) {
      case ONE, OPTIONAL -> leaf == null ? "a mapping" : one;
      case LIST -> leaf == null ? "a list of mappings" : "a list, each item " + one;
      case MAP -> "a mapping, each value " + one;
    };
  }
}
