// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonRead.Member;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A JSON object as bytes together with where its top-level fields lie, so that one field can be
 * changed and every other byte stays as the client sent it: unknown fields, number forms, escapes,
 * key order and whitespace.
 *
 * <p>Does not copy the body; the array is not to be modified.
 */
public final class SpliceableBody {
  private final byte[] body;
  private final List<Member> members;
  private final int openBrace;

  private SpliceableBody(byte[] body, List<Member> members, int openBrace) {
    this.body = body;
    this.members = members;
    this.openBrace = openBrace;
  }

  /**
   * Of a body and what {@link JsonReader} read from exactly these bytes; the value must be an
   * object.
   */
  public static SpliceableBody of(byte[] body, JsonRead.Document document) {
    if (!(document.value() instanceof Json.Obj)) {
      throw new IllegalArgumentException("only an object has fields to splice");
    }
    int brace = 0;
    while (body[brace] != '{') {
      brace++;
    }
    return new SpliceableBody(body, document.members(), brace);
  }

  /** The bytes as received. */
  public byte[] bytes() {
    return body;
  }

  /** Whether some top-level field has this name. */
  public boolean has(String field) {
    return members.stream().anyMatch(member -> member.key().equals(field));
  }

  /** Whether some top-level field of this name has exactly these bytes as its value. */
  public boolean has(String field, String value) {
    byte[] wanted = value.getBytes(StandardCharsets.UTF_8);
    return members.stream()
        .anyMatch(
            member ->
                member.key().equals(field)
                    && Arrays.equals(
                        body, member.valueStart(), member.valueEnd(), wanted, 0, wanted.length));
  }

  /**
   * The body with these changes, at most one per field. Returns the received array itself when
   * nothing changes.
   *
   * @throws IllegalArgumentException when two edits name the same field
   */
  public byte[] apply(List<BodyEdit> edits) {
    Map<String, byte[]> puts = new LinkedHashMap<>();
    Set<String> removals = new HashSet<>();
    Set<String> named = new HashSet<>();
    for (BodyEdit edit : edits) {
      if (!named.add(edit.field())) {
        throw new IllegalArgumentException("two edits of field " + edit.field());
      }
      switch (edit) {
        case BodyEdit.Put(String field, Json value) -> puts.put(field, JsonWriter.bytes(value));
        case BodyEdit.Remove(String field) -> removals.add(field);
        case BodyEdit.PutNested nested -> puts.put(nested.field(), nestedBytes(nested));
      }
    }
    boolean nothingToRemove = removals.stream().noneMatch(this::has);
    return puts.isEmpty() && nothingToRemove ? body : splice(puts, removals);
  }

  private byte[] splice(Map<String, byte[]> puts, Set<String> removals) {
    ByteArrayOutputStream out = new ByteArrayOutputStream(body.length + 256);
    Set<String> written = new HashSet<>();
    int end = openBrace + 1;
    out.write(body, 0, end);
    boolean first = true;
    for (Member member : members) {
      if (!removals.contains(member.key())) {
        // What lies between two fields goes with the later one, except the comma before a field
        // that came to be first.
        int from = first && end != openBrace + 1 ? member.keyStart() : end;
        out.write(body, from, member.keyStart() - from);
        byte[] replacement = puts.get(member.key());
        if (replacement == null) {
          out.write(body, member.keyStart(), member.valueEnd() - member.keyStart());
        } else {
          out.write(body, member.keyStart(), member.valueStart() - member.keyStart());
          out.writeBytes(replacement);
          written.add(member.key());
        }
        first = false;
      }
      end = member.valueEnd();
    }
    for (Map.Entry<String, byte[]> put : puts.entrySet()) {
      if (!written.contains(put.getKey())) {
        if (!first) {
          out.write(',');
        }
        out.writeBytes(JsonWriter.bytes(new Json.Str(put.getKey())));
        out.write(':');
        out.writeBytes(put.getValue());
        first = false;
      }
    }
    out.write(body, end, body.length - end);
    return out.toByteArray();
  }

  /** The last value of the outer field wins for the worker, so it is the one that is kept. */
  private byte[] nestedBytes(BodyEdit.PutNested edit) {
    Member outer = null;
    for (Member member : members) {
      if (member.key().equals(edit.field())) {
        outer = member;
      }
    }
    if (outer != null && body[outer.valueStart()] == '{') {
      byte[] inner = Arrays.copyOfRange(body, outer.valueStart(), outer.valueEnd());
      JsonLimits limits = JsonLimits.DEFAULTS.withMaxDocumentBytes(Integer.MAX_VALUE);
      if (new JsonReader(limits).read(inner) instanceof JsonRead.Document document) {
        return of(inner, document)
            .apply(List.of(new BodyEdit.Put(edit.innerField(), edit.value())));
      }
    }
    Map<String, Json> fresh = new HashMap<>();
    fresh.put(edit.innerField(), edit.value());
    return JsonWriter.text(Json.Obj.of(fresh)).getBytes(StandardCharsets.UTF_8);
  }
}
