// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * What to measure and for how long.
 *
 * @param tokens sizes of prompts
 * @param clients how many clients ask at once, with each size and kind of prompt
 * @param saturation the same with the smallest prompts alone
 * @param answers ways of the answer for the request table, see {@code docs/envoy.md}
 * @param streamAnswers the same for the table of streams
 * @param requestBody how Envoy hands bodies to Kvoy
 * @param chunks lengths of streams, empty for no table of streams
 * @param streamClients streams open at once
 * @param gap time between two chunks
 * @param jit time of mixed load before anything is measured, so that the JVM has compiled
 * @param warmUp unmeasured time before each cell
 * @param measured measured time of each cell
 * @param jvm JVM options of Kvoy; those of {@code bin/kvoy-server} when empty
 * @param tokenizer which of {@code make tools}
 * @param kvoyMore further {@code spec} fields of the KvoyConfig document, as YAML flow
 * @param profile file for a flight recording of Kvoy
 */
record OverheadOptions(
    List<Integer> tokens,
    List<Integer> clients,
    List<Integer> saturation,
    List<ResponseBodyMode> answers,
    List<ResponseBodyMode> streamAnswers,
    RequestBodyMode requestBody,
    List<Integer> chunks,
    int streamClients,
    Duration gap,
    Duration jit,
    Duration warmUp,
    Duration measured,
    List<String> jvm,
    String tokenizer,
    String kvoyMore,
    Optional<String> profile) {

  static final String HELP =
      """
      What Kvoy adds to a request: a real Envoy with and without it, workers that compute nothing.

        make overhead [ARGS="OPTION VALUE ..."]

        --tokens N,N,...       prompt sizes (200,2000,8000,32000,55000)
        --clients N,N,...      clients at once, each size and kind (1,8)
        --saturation N,N,...   clients at once, smallest size alone (50,200); none: leave out
        --answers WAY,...      STREAMED, FULL_DUPLEX_STREAMED, COPIED, REPORTED, NONE (STREAMED,REPORTED)
        --request-body MODE    BUFFERED, FULL_DUPLEX_STREAMED (BUFFERED)
        --chunks N,N,...       lengths of streams (100,1000); none: no streams
        --stream-answers WAY,...  (STREAMED,FULL_DUPLEX_STREAMED,COPIED,REPORTED)
        --stream-clients N     streams open at once (8)
        --gap MILLIS           between two chunks (2)
        --jit SECONDS          mixed load before anything is measured (40)
        --warm-up SECONDS      before each cell (2)
        --seconds SECONDS      measured time of each cell (5)
        --jvm "OPTION ..."     JVM options of Kvoy in place of those of bin/kvoy-server
        --tokenizer NAME       of make tools (qwen3)
        --kvoy "YAML"          further spec fields of KvoyConfig, one line
        --profile FILE         Java flight recording of Kvoy from the first measured cell on
        --help

      Needs make tools. CPU is what /proc says of each process; other work on the machine makes
      latencies worse and CPU per request a little: the load average is printed with the table.
      """;

  static OverheadOptions defaults() {
    return new OverheadOptions(
        List.of(200, 2_000, 8_000, 32_000, 55_000),
        List.of(1, 8),
        List.of(50, 200),
        List.of(ResponseBodyMode.STREAMED, ResponseBodyMode.REPORTED),
        List.of(
            ResponseBodyMode.STREAMED,
            ResponseBodyMode.FULL_DUPLEX_STREAMED,
            ResponseBodyMode.COPIED,
            ResponseBodyMode.REPORTED),
        RequestBodyMode.BUFFERED,
        List.of(100, 1_000),
        8,
        Duration.ofMillis(2),
        Duration.ofSeconds(40),
        Duration.ofSeconds(2),
        Duration.ofSeconds(5),
        List.of(),
        "qwen3",
        "",
        Optional.empty());
  }

  /**
   * Reads a command line.
   *
   * @throws IllegalArgumentException with a sentence for the user
   */
  static OverheadOptions parse(String[] args) {
    OverheadOptions o = defaults();
    for (int i = 0; i < args.length; i += 2) {
      if (i + 1 == args.length) {
        throw new IllegalArgumentException(args[i] + " needs a value; see --help");
      }
      o = o.with(args[i], args[i + 1]);
    }
    return o;
  }

  private OverheadOptions with(String name, String value) {
    return switch (name) {
      case "--tokens" ->
          copy(numbers(value), clients, saturation, answers, streamAnswers, requestBody, chunks);
      case "--clients" ->
          copy(tokens, numbers(value), saturation, answers, streamAnswers, requestBody, chunks);
      case "--saturation" ->
          copy(tokens, clients, numbers(value), answers, streamAnswers, requestBody, chunks);
      case "--answers" ->
          copy(tokens, clients, saturation, ways(value), streamAnswers, requestBody, chunks);
      case "--stream-answers" ->
          copy(tokens, clients, saturation, answers, ways(value), requestBody, chunks);
      case "--request-body" ->
          copy(
              tokens,
              clients,
              saturation,
              answers,
              streamAnswers,
              RequestBodyMode.valueOf(value.toUpperCase(Locale.ROOT)),
              chunks);
      case "--chunks" ->
          copy(tokens, clients, saturation, answers, streamAnswers, requestBody, numbers(value));
      case "--stream-clients" -> streaming(number(value), gap);
      case "--gap" -> streaming(streamClients, Duration.ofMillis(number(value)));
      case "--jit" -> times(seconds(value), warmUp, measured);
      case "--warm-up" -> times(jit, seconds(value), measured);
      case "--seconds" -> times(jit, warmUp, seconds(value));
      case "--jvm" -> kvoy(List.of(value.strip().split(" +")), tokenizer, kvoyMore, profile);
      case "--tokenizer" -> kvoy(jvm, value, kvoyMore, profile);
      case "--kvoy" -> kvoy(jvm, tokenizer, value, profile);
      case "--profile" -> kvoy(jvm, tokenizer, kvoyMore, Optional.of(value));
      default -> throw new IllegalArgumentException("no option " + name + "; see --help");
    };
  }

  private OverheadOptions copy(
      List<Integer> newTokens,
      List<Integer> newClients,
      List<Integer> newSaturation,
      List<ResponseBodyMode> newAnswers,
      List<ResponseBodyMode> newStreamAnswers,
      RequestBodyMode newRequestBody,
      List<Integer> newChunks) {
    return new OverheadOptions(
        newTokens,
        newClients,
        newSaturation,
        newAnswers,
        newStreamAnswers,
        newRequestBody,
        newChunks,
        streamClients,
        gap,
        jit,
        warmUp,
        measured,
        jvm,
        tokenizer,
        kvoyMore,
        profile);
  }

  private OverheadOptions streaming(int newClients, Duration newGap) {
    return new OverheadOptions(
        tokens,
        clients,
        saturation,
        answers,
        streamAnswers,
        requestBody,
        chunks,
        newClients,
        newGap,
        jit,
        warmUp,
        measured,
        jvm,
        tokenizer,
        kvoyMore,
        profile);
  }

  private OverheadOptions times(Duration newJit, Duration newWarmUp, Duration newMeasured) {
    return new OverheadOptions(
        tokens,
        clients,
        saturation,
        answers,
        streamAnswers,
        requestBody,
        chunks,
        streamClients,
        gap,
        newJit,
        newWarmUp,
        newMeasured,
        jvm,
        tokenizer,
        kvoyMore,
        profile);
  }

  private OverheadOptions kvoy(
      List<String> newJvm, String newTokenizer, String newMore, Optional<String> newProfile) {
    return new OverheadOptions(
        tokens,
        clients,
        saturation,
        answers,
        streamAnswers,
        requestBody,
        chunks,
        streamClients,
        gap,
        jit,
        warmUp,
        measured,
        newJvm,
        newTokenizer,
        newMore,
        newProfile);
  }

  private static List<Integer> numbers(String value) {
    return value.equals("none")
        ? List.of()
        : Arrays.stream(value.split(",", -1)).map(OverheadOptions::number).toList();
  }

  private static int number(String value) {
    int number = Integer.parseInt(value.strip());
    if (number < 1 || number > 100_000) {
      throw new IllegalArgumentException(value + " is not between 1 and 100000");
    }
    return number;
  }

  private static Duration seconds(String value) {
    return Duration.ofSeconds(number(value));
  }

  private static List<ResponseBodyMode> ways(String value) {
    return value.equals("none")
        ? List.of()
        : Arrays.stream(value.toUpperCase(Locale.ROOT).split(",", -1))
            .map(ResponseBodyMode::valueOf)
            .toList();
  }
}
