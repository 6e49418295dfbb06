// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJsonReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Objects;
import org.msgpack.core.MessagePack;
import org.msgpack.value.Value;

/** A recorded session with a real worker, from the test resources. */
final class Recording {
  private Recording() {}

  static String resource(String name) {
    try (InputStream in = Recording.class.getResourceAsStream("/sim/" + name)) {
      return new String(
          Objects.requireNonNull(in, "no test resource sim/" + name).readAllBytes(),
          StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Json.Obj json(String text) {
    return switch (PythonJsonReader.read(text)) {
      case PythonJsonReader.Outcome.Read(Json.Obj object) -> object;
      case PythonJsonReader.Outcome other -> throw new AssertionError("not an object: " + other);
    };
  }

  static List<Json.Obj> lines(String name) {
    return resource(name).lines().map(Recording::json).toList();
  }

  static List<Json.Obj> lines(String name, String kind) {
    return lines(name).stream().filter(l -> kind.equals(string(l, "kind"))).toList();
  }

  static String string(Json.Obj object, String key) {
    Json value = object.get(key);
    return value instanceof Json.Str(String text) ? text : "";
  }

  static Json.Obj object(Json.Obj parent, String... path) {
    Json.Obj at = parent;
    for (String key : path) {
      at = (Json.Obj) Objects.requireNonNull(at.get(key), key);
    }
    return at;
  }

  static int number(Json.Obj parent, String key) {
    return (int) ((Json.Int) Objects.requireNonNull(parent.get(key), key)).value();
  }

  static int[] ints(Json array) {
    return ((Json.Arr) array)
        .items().stream().mapToInt(i -> (int) ((Json.Int) i).value()).toArray();
  }

  /** The frames of a {@code pub} or {@code replay_reply} line. */
  static List<byte[]> frames(Json.Obj line) {
    List<byte[]> frames = new ArrayList<>();
    for (Json frame : ((Json.Arr) Objects.requireNonNull(line.get("frames"))).items()) {
      frames.add(Base64.getDecoder().decode(((Json.Str) frame).value()));
    }
    return frames;
  }

  static Value unpack(byte[] payload) {
    try (var unpacker = MessagePack.newDefaultUnpacker(payload)) {
      return unpacker.unpackValue();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
