// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.lang.reflect.Constructor;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What a record of the configuration tree looks like in the file, read from its {@link Setting}
 * annotations. Components without one are given by the document itself ({@code metadata.name}).
 *
 * @param type the record
 * @param fields its fields in order of declaration
 */
record SectionShape(Class<? extends Record> type, List<Field> fields) {

  /** How many values a field holds. */
  enum Arity {
    ONE,
    OPTIONAL,
    LIST,
    /** Text keys; the keys have the field's form. */
    MAP
  }

  /**
   * One field.
   *
   * @param name as written in the file
   * @param setting its description
   * @param arity how many values it holds
   * @param element type of each value: a leaf type or a record
   * @param component the way to the value in a built record
   */
  record Field(
      String name, Setting setting, Arity arity, Class<?> element, RecordComponent component) {

    /** The leaf type of its values, or null when they are sections. */
    @Nullable LeafType<?> leaf() {
      return LeafType.of(element);
    }

    /** The shape of its values; only for fields without a leaf type. */
    SectionShape section() {
      return SectionShape.of(element.asSubclass(Record.class));
    }

    /** The field's value in {@code section}. */
    Object valueIn(Record section) {
      try {
        return component.getAccessor().invoke(section);
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException("cannot read " + component, e);
      }
    }
  }

  private static final ClassValue<SectionShape> SHAPES =
      new ClassValue<>() {
        @Override
        protected SectionShape computeValue(Class<?> type) {
          return read(type.asSubclass(Record.class));
        }
      };

  static SectionShape of(Class<? extends Record> type) {
    return SHAPES.get(type);
  }

  private static SectionShape read(Class<? extends Record> type) {
    List<Field> fields = new ArrayList<>();
    for (RecordComponent component : type.getRecordComponents()) {
      Setting setting = component.getAnnotation(Setting.class);
      if (setting == null) {
        continue;
      }
      Class<?> raw = component.getType();
      Arity arity = Arity.ONE;
      Class<?> element = raw;
      if (component.getGenericType() instanceof ParameterizedType generic) {
        Type[] arguments = generic.getActualTypeArguments();
        element = (Class<?>) arguments[arguments.length - 1];
        arity = raw == Optional.class ? Arity.OPTIONAL : raw == List.class ? Arity.LIST : Arity.MAP;
      }
      if (LeafType.of(element) == null && !element.isRecord()) {
        throw new IllegalStateException(component + " has a type that no file can hold");
      }
      component.getAccessor().setAccessible(true);
      fields.add(new Field(component.getName(), setting, arity, element, component));
    }
    return new SectionShape(type, List.copyOf(fields));
  }

  List<String> names() {
    return fields.stream().map(Field::name).toList();
  }

  @Nullable Field field(String name) {
    for (Field field : fields) {
      if (field.name().equals(name)) {
        return field;
      }
    }
    return null;
  }

  /** Path below this section of the first field called {@code name}; null when there is none. */
  @Nullable String pathTo(String name) {
    if (field(name) != null) {
      return name;
    }
    for (Field field : fields) {
      if (field.leaf() == null) {
        String below = field.section().pathTo(name);
        if (below != null) {
          return field.name() + (field.arity() == Arity.LIST ? "[]." : ".") + below;
        }
      }
    }
    return null;
  }

  /** Builds the record; {@code values} holds every component by name. */
  Record build(Map<String, Object> values) {
    RecordComponent[] components = type.getRecordComponents();
    try {
      Constructor<? extends Record> constructor =
          type.getDeclaredConstructor(
              Arrays.stream(components).map(RecordComponent::getType).toArray(Class[]::new));
      constructor.setAccessible(true);
      Object[] arguments = new Object[components.length];
      for (int i = 0; i < components.length; i++) {
        String name = components[i].getName();
        arguments[i] =
            Objects.requireNonNull(values.get(name), () -> type + " lacks a value for " + name);
      }
      return constructor.newInstance(arguments);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("cannot build " + type.getSimpleName(), e);
    }
  }
}
