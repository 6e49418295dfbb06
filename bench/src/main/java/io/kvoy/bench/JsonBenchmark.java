// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.PythonJson;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Reading the JSON of a chat request: messages of 160 and 1,200 characters from the Java and
 * Markdown files of this repository, with an escape about every dozen characters. Run, with CPU
 * time per operation beside wall time:
 *
 * <pre>
 * make bench ARGS="JsonBenchmark -prof io.kvoy.bench.ThreadCpuProfiler"
 * </pre>
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
public class JsonBenchmark {

  /** Bodies of one size, more than fit the CPU's nearest caches. */
  @State(Scope.Benchmark)
  public static class Bodies {
    private static final int COUNT = 16;

    @Param({"1000", "130000"})
    public int chars;

    private final List<byte[]> bodies = new ArrayList<>();
    private int next;

    @Setup
    public void build() throws IOException {
      String text = EncodeBenchmark.repositoryText();
      int at = 0;
      for (int i = 0; i < COUNT; i++) {
        List<Json> messages = new ArrayList<>();
        int left = chars;
        while (left > 0) {
          boolean asks = messages.size() % 2 == 0;
          int length = Math.min(left, asks ? 160 : 1200);
          at = at + length > text.length() ? 0 : at;
          messages.add(
              Json.Obj.of(
                  Map.of(
                      "role", new Json.Str(asks ? "user" : "assistant"),
                      "content", new Json.Str(text.substring(at, at + length)))));
          at += length;
          left -= length;
        }
        Json body =
            Json.Obj.of(Map.of("model", new Json.Str("m"), "messages", new Json.Arr(messages)));
        bodies.add(PythonJson.dumps(body).getBytes(UTF_8));
      }
    }

    byte[] nextBody() {
      next = (next + 1) % COUNT;
      return bodies.get(next);
    }
  }

  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  @Benchmark
  public JsonRead read(Bodies bodies) {
    return READER.read(bodies.nextBody());
  }
}
