// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.BodyMemory;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.PythonJson;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
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
 * Reading the JSON of a chat request, as if it were the first one and as the next turn of one that
 * was read before: messages of 160 and 1,200 characters from the Java and Markdown files of this
 * repository, with an escape about every dozen characters. Run, with CPU time per operation beside
 * wall time:
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
    private static final int BRANCHES = 3;
    private static final int QUESTION_CHARS = 160;
    private static final int ANSWER_CHARS = 1200;

    @Param({"1000", "130000"})
    public int chars;

    private final List<byte[]> bodies = new ArrayList<>();
    private int next;

    /**
     * The same with an answer and a question more, in other arrays, as requests bring them. Some
     * other ones for each body: what follows a body is new whenever it is read.
     */
    private final List<byte[]> nextTurns = new ArrayList<>();

    final JsonReader remembering = new JsonReader(JsonLimits.DEFAULTS, new BodyMemory(64L << 20));

    private String text = "";
    private int at;

    @Setup
    public void build() throws IOException {
      text = EncodeBenchmark.repositoryText();
      List<List<Json>> conversations = new ArrayList<>();
      for (int i = 0; i < COUNT; i++) {
        List<Json> messages = new ArrayList<>();
        for (int left = chars; left > 0; ) {
          left -= add(messages, left);
        }
        conversations.add(messages);
        bodies.add(body(messages));
        remembering.read(body(messages));
      }
      for (int branch = 0; branch < BRANCHES; branch++) {
        for (List<Json> conversation : conversations) {
          List<Json> messages = new ArrayList<>(conversation);
          add(messages, ANSWER_CHARS);
          add(messages, QUESTION_CHARS);
          nextTurns.add(body(messages));
        }
      }
    }

    private int add(List<Json> messages, int atMost) {
      boolean asks = messages.size() % 2 == 0;
      int length = Math.min(atMost, asks ? QUESTION_CHARS : ANSWER_CHARS);
      at = at + length > text.length() ? 0 : at;
      messages.add(
          Json.Obj.of(
              Map.of(
                  "role", new Json.Str(asks ? "user" : "assistant"),
                  "content", new Json.Str(text.substring(at, at + length)))));
      at += length;
      return length;
    }

    private static byte[] body(List<Json> messages) {
      SequencedMap<String, Json> body = new LinkedHashMap<>();
      body.put("model", new Json.Str("m"));
      body.put("messages", new Json.Arr(messages));
      return PythonJson.dumps(new Json.Obj(body)).getBytes(UTF_8);
    }

    byte[] nextTurn() {
      next = (next + 1) % (COUNT * BRANCHES);
      return nextTurns.get(next);
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

  @Benchmark
  public JsonRead readNextTurn(Bodies bodies) {
    return bodies.remembering.read(bodies.nextTurn());
  }
}
