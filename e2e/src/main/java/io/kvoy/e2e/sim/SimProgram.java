// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The command line of {@link SimWorker}: names follow vLLM's where there is one. */
@Command(
    name = "sim-worker",
    mixinStandardHelpOptions = true,
    version = "behaves as vLLM " + Replies.VERSION,
    sortOptions = false,
    showDefaultValues = true,
    description = "A simulated vLLM worker: same HTTP API, cache events and metrics, no GPU.")
final class SimProgram implements Callable<Integer> {

  @Spec private CommandSpec command = CommandSpec.create();

  @Option(names = "--model", required = true, description = "served model name")
  private String model = "";

  @Option(
      names = "--tokenizer",
      paramLabel = "DIR",
      description =
          "folder with tokenizer.json and tokenizer_config.json; without it every word is a token")
  private @Nullable Path tokenizer;

  @Option(names = "--lora", paramLabel = "NAME=PATH", description = "an adapter; repeatable")
  private List<String> loras = new ArrayList<>();

  @Option(names = "--host", description = "address to listen on")
  private String host = "127.0.0.1";

  @Option(names = "--port", description = "HTTP port, 0 for any")
  private int port = 8000;

  @Option(
      names = "--control-port",
      description = "port for /sim commands that outlives a crash, 0 for any, -1 for none")
  private int controlPort = -1;

  @Option(names = "--seed", description = "of everything random")
  private long seed = 1;

  @Option(names = "--time-scale", description = "machine seconds per second")
  private double timeScale = 1;

  @Option(
      names = "--api-overhead-ms",
      description = "machine time before a request is queued and a stream's head leaves")
  private double apiOverheadMillis = 4;

  @Option(
      names = "--mean-answer-tokens",
      description = "mean length of answers that are not cut short, 0 for without end")
  private int meanAnswerTokens = 128;

  @Option(names = "--keep-alive-ms", description = "idle time before a connection is closed")
  private int keepAliveMillis = 5000;

  @Option(
      names = "--no-prompt-tokens-details",
      description = "as a vLLM without --enable-prompt-tokens-details")
  private boolean noPromptTokensDetails;

  @Option(
      names = "--no-request-id-headers",
      description = "as a vLLM without --enable-request-id-headers")
  private boolean noRequestIdHeaders;

  @Option(names = "--usable-blocks", description = "cache blocks that requests can hold")
  private int blocks = EngineOptions.DEFAULTS.usableBlocks();

  @Option(names = "--block-size", description = "tokens per block")
  private int blockSize = EngineOptions.DEFAULTS.blockSize();

  @Option(names = "--max-model-len", description = "longest prompt plus answer, in tokens")
  private int maxModelLen = EngineOptions.DEFAULTS.maxModelLen();

  @Option(names = "--max-num-seqs", description = "most sequences in one batch")
  private int maxNumSeqs = EngineOptions.DEFAULTS.maxNumSeqs();

  @Option(names = "--max-num-batched-tokens", description = "most tokens of one step")
  private int maxBatchedTokens = EngineOptions.DEFAULTS.maxBatchedTokens();

  @Option(names = "--prefill-tps", description = "prompt tokens computed per machine second")
  private double prefillTps = EngineOptions.DEFAULTS.prefillTokensPerSecond();

  @Option(names = "--decode-tps", description = "tokens per machine second of a lone sequence")
  private double decodeTps = EngineOptions.DEFAULTS.decodeTokensPerSecond();

  @Option(
      names = "--decode-slowdown",
      description = "share of a lone decode step that each further sequence adds")
  private double decodeSlowdown = EngineOptions.DEFAULTS.decodeSlowdown();

  @Option(names = "--step-overhead-ms", description = "fixed machine time of a step")
  private double stepOverheadMillis = EngineOptions.DEFAULTS.stepOverheadMillis();

  @Option(names = "--jitter", description = "half-width of a random factor on step times")
  private double jitter = EngineOptions.DEFAULTS.jitter();

  @Option(
      names = "--data-parallel-size",
      description = "engines behind the one port; rank r publishes on the ports plus r")
  private int dataParallelSize = 1;

  @Option(names = "--hash-seed", description = "PYTHONHASHSEED of the worker")
  private String hashSeed = EngineOptions.DEFAULTS.hashSeed();

  @Option(
      names = "--kv-events-endpoint",
      description = "PUB address: bound with * or :: in it, else connected to; empty for none")
  private String eventsEndpoint = "";

  @Option(
      names = "--kv-events-replay-endpoint",
      description = "ROUTER address, always bound; empty for none")
  private String replayEndpoint = "";

  @Option(names = "--kv-events-topic", description = "first frame of each event message")
  private String topic = "";

  @Option(names = "--kv-events-buffer-steps", description = "batches kept for replay")
  private int bufferSteps = EventOptions.OFF.bufferSteps();

  @Option(names = "--kv-events-format", description = "MAP (vLLM 0.24 and later) or ARRAY (before)")
  private EventOptions.Format format = EventOptions.Format.MAP;

  @Option(
      names = "--kv-events-framing",
      description = "replay answers WITH_TOPIC (0.26 and later) or WITHOUT_TOPIC (before)")
  private EventOptions.Framing framing = EventOptions.Framing.WITH_TOPIC;

  @Option(names = "--kv-events-byte-hashes", description = "hashes as 32 bytes instead of integers")
  private boolean byteHashes;

  @Override
  public Integer call() throws InterruptedException {
    SimOptions options;
    try {
      options = options();
    } catch (IllegalArgumentException e) {
      throw new ParameterException(command.commandLine(), String.valueOf(e.getMessage()), e);
    }
    try (SimWorker worker = SimWorker.start(options)) {
      System.out.printf(
          "ready model=%s port=%d control_port=%d kv_events=%s kv_replay=%s%n",
          model,
          worker.port(),
          worker.controlPort(),
          worker.eventEndpoint(),
          worker.replayEndpoint());
      // Runs until the process is ended from outside.
      new CountDownLatch(1).await();
    }
    return 0;
  }

  private SimOptions options() {
    return SimOptions.builder(model)
        .loras(loras.toArray(String[]::new))
        .host(host)
        .port(port)
        .controlPort(controlPort)
        .seed(seed)
        .timeScale(timeScale)
        .apiOverheadMillis(apiOverheadMillis)
        .meanAnswerTokens(meanAnswerTokens)
        .keepAliveMillis(keepAliveMillis)
        .promptTokensDetails(!noPromptTokensDetails)
        .requestIdHeaders(!noRequestIdHeaders)
        .engine(
            new EngineOptions(
                blocks,
                blockSize,
                maxModelLen,
                maxNumSeqs,
                maxBatchedTokens,
                prefillTps,
                decodeTps,
                decodeSlowdown,
                stepOverheadMillis,
                jitter,
                hashSeed))
        .events(
            new EventOptions(
                eventsEndpoint, replayEndpoint, topic, bufferSteps, format, framing, !byteHashes))
        .dataParallelSize(dataParallelSize)
        .tokenizer(tokenizer())
        .build();
  }

  private @Nullable SimTokenizer tokenizer() {
    if (tokenizer == null) {
      return null;
    }
    try {
      return FolderSimTokenizer.load(tokenizer);
    } catch (IOException e) {
      throw new IllegalArgumentException("--tokenizer cannot be used: " + e.getMessage(), e);
    }
  }
}
