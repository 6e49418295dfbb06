// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Fields are kept one way when they are few and another way when they are many. */
class JsonFieldsTest {
  private static SequencedMap<String, Json> fields(int count) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    for (int i = 0; i < count; i++) {
      fields.put("name" + (count - i), new Json.Int(i));
    }
    return fields;
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 2, 8, 9, 100})
  void fieldsAreThoseOfTheDocumentInItsOrder(int count) {
    SequencedMap<String, Json> expected = fields(count);

    SequencedMap<String, Json> fields = new Json.Obj(expected).fields();

    assertThat(fields).isEqualTo(expected).hasSameHashCodeAs(expected).hasSize(count);
    assertThat(List.copyOf(fields.entrySet())).isEqualTo(List.copyOf(expected.entrySet()));
    assertThat(fields.keySet()).containsExactlyElementsOf(expected.keySet());
    assertThat(fields.values()).containsExactlyElementsOf(expected.values());
    assertThat(fields.firstEntry()).isEqualTo(expected.firstEntry());
    assertThat(fields.lastEntry()).isEqualTo(expected.lastEntry());
    assertThat(fields.reversed().keySet()).containsExactlyElementsOf(expected.reversed().keySet());
    List<String> seen = new ArrayList<>();
    fields.forEach((name, value) -> seen.add(name + value));
    List<String> wanted = new ArrayList<>();
    expected.forEach((name, value) -> wanted.add(name + value));
    assertThat(seen).isEqualTo(wanted);
    for (String name : List.of("name1", "name2", "name9", "other")) {
      assertThat(fields.get(name)).isEqualTo(expected.get(name));
      assertThat(fields.containsKey(name)).isEqualTo(expected.containsKey(name));
    }
    assertThat(new Json.Obj(expected)).isEqualTo(new Json.Obj(fields));
    assertThat(new Json.Obj(expected)).hasToString("Obj[fields=" + expected + "]");
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 8, 9})
  void fieldsDoNotChange(int count) {
    SequencedMap<String, Json> source = fields(count);
    SequencedMap<String, Json> fields = new Json.Obj(source).fields();
    source.clear();

    assertThat(fields).isEqualTo(fields(count));
    assertThatThrownBy(() -> fields.put("name1", Json.Null.NULL))
        .isInstanceOf(UnsupportedOperationException.class);
    assertThatThrownBy(() -> fields.remove("name1"))
        .isInstanceOf(UnsupportedOperationException.class);
    assertThatThrownBy(() -> fields.entrySet().iterator().next().setValue(Json.Null.NULL))
        .isInstanceOf(UnsupportedOperationException.class);
    assertThatThrownBy(() -> fields.reversed().clear())
        .isInstanceOf(UnsupportedOperationException.class);
    assertThatThrownBy(fields::pollFirstEntry).isInstanceOf(UnsupportedOperationException.class);
  }
}
