// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import io.kvoy.scoring.fleet.Endpoint;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * How to start one vLLM 0.32.0 worker on a CPU.
 *
 * @param name for logs and messages
 * @param listen its HTTP door, loopback
 * @param model model folder
 * @param servedModelName the name requests use
 * @param kvEvents where it publishes KV cache events; none when empty
 * @param blockSizeTokens tokens per cache block; CPU attention takes multiples of 32 only
 * @param gpuBlocks size of its cache in blocks, one of which vLLM keeps; times the block size it
 *     must hold {@code maxModelTokens}
 * @param maxModelTokens longest prompt plus answer
 * @param maxRunningRequests requests it works on at once; others wait in its queue
 * @param hashAlgorithm {@code --prefix-caching-hash-algo}
 * @param pythonHashSeed fixes the seed of the block hashes; each start draws its own when empty
 * @param intBlockHashes publish block hashes as integers of 64 bits (vLLM's default) instead of
 *     bytes
 * @param moreArguments put at the end of the command
 * @param moreEnvironment put on top of the environment
 */
public record VllmOptions(
    String name,
    Endpoint listen,
    Path model,
    String servedModelName,
    Optional<KvEvents> kvEvents,
    int blockSizeTokens,
    int gpuBlocks,
    int maxModelTokens,
    int maxRunningRequests,
    String hashAlgorithm,
    Optional<String> pythonHashSeed,
    boolean intBlockHashes,
    List<String> moreArguments,
    Map<String, String> moreEnvironment) {

  /**
   * Where a worker publishes.
   *
   * @param publish endpoint as vLLM reads it: it binds when the text contains {@code *} or {@code
   *     ::}, else it connects
   * @param replay endpoint of the replay socket, which always binds
   * @param topic prefix of each message
   * @param bufferSteps batches kept for replay
   */
  public record KvEvents(String publish, String replay, String topic, int bufferSteps) {
    /** vLLM's own default of kept batches. */
    private static final int DEFAULT_BUFFER_STEPS = 10_000;

    /**
     * The worker binds both sockets to loopback; Kvoy connects to {@code tcp://127.0.0.1:<port>}.
     */
    public static KvEvents bindLoopback(int publishPort, int replayPort, String topic) {
      // An IPv4 loopback address in IPv6 notation: the "::" makes vLLM bind, and nobody outside
      // gets in.
      return new KvEvents(
          "tcp://[::ffff:127.0.0.1]:" + publishPort,
          "tcp://127.0.0.1:" + replayPort,
          topic,
          DEFAULT_BUFFER_STEPS);
    }

    /**
     * The worker connects its publisher to a subscriber of ours that has bound {@code
     * subscriberPort}.
     */
    public static KvEvents connectLoopback(int subscriberPort, int replayPort, String topic) {
      return new KvEvents(
          "tcp://127.0.0.1:" + subscriberPort,
          "tcp://127.0.0.1:" + replayPort,
          topic,
          DEFAULT_BUFFER_STEPS);
    }

    String toJson() {
      return "{\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\""
          + publish
          + "\",\"replay_endpoint\":\""
          + replay
          + "\",\"topic\":\""
          + topic
          + "\",\"buffer_steps\":"
          + bufferSteps
          + "}";
    }
  }

  public VllmOptions {
    moreArguments = List.copyOf(moreArguments);
    moreEnvironment = Map.copyOf(moreEnvironment);
    if (blockSizeTokens <= 0 || blockSizeTokens % 32 != 0) {
      throw new IllegalArgumentException(
          "vLLM's CPU attention takes block sizes that are multiples of 32, was "
              + blockSizeTokens);
    }
    if ((long) (gpuBlocks - 1) * blockSizeTokens < maxModelTokens) {
      throw new IllegalArgumentException(
          (gpuBlocks - 1)
              + " usable blocks of "
              + blockSizeTokens
              + " tokens cannot hold "
              + maxModelTokens);
    }
  }

  /**
   * A worker on free ports that publishes its events on loopback: 129 usable blocks of 32 tokens,
   * prompts up to 4096.
   *
   * @param tools where the model {@code tiny-qwen3} is
   */
  public static VllmOptions tinyQwen3(LocalTools tools, String name) {
    return new VllmOptions(
        name,
        new Endpoint("127.0.0.1", Ports.free()),
        tools.model("tiny-qwen3"),
        "tiny-qwen3",
        Optional.of(
            KvEvents.bindLoopback(Ports.free(), Ports.free(), "kv@" + name + "@tiny-qwen3")),
        32,
        130,
        4_096,
        8,
        "sha256_cbor",
        Optional.of("0"),
        true,
        List.of(),
        Map.of());
  }

  public VllmOptions withKvEvents(Optional<KvEvents> value) {
    return new VllmOptions(
        name,
        listen,
        model,
        servedModelName,
        value,
        blockSizeTokens,
        gpuBlocks,
        maxModelTokens,
        maxRunningRequests,
        hashAlgorithm,
        pythonHashSeed,
        intBlockHashes,
        moreArguments,
        moreEnvironment);
  }

  /**
   * A cache of {@code blocks} blocks of {@code tokens} tokens that takes prompts and answers up to
   * {@code longest}.
   */
  public VllmOptions withCache(int tokens, int blocks, int longest) {
    return new VllmOptions(
        name,
        listen,
        model,
        servedModelName,
        kvEvents,
        tokens,
        blocks,
        longest,
        maxRunningRequests,
        hashAlgorithm,
        pythonHashSeed,
        intBlockHashes,
        moreArguments,
        moreEnvironment);
  }

  public VllmOptions withHashes(String algorithm, Optional<String> seed, boolean asInts) {
    return new VllmOptions(
        name,
        listen,
        model,
        servedModelName,
        kvEvents,
        blockSizeTokens,
        gpuBlocks,
        maxModelTokens,
        maxRunningRequests,
        algorithm,
        seed,
        asInts,
        moreArguments,
        moreEnvironment);
  }

  public VllmOptions withMore(List<String> arguments, Map<String, String> environment) {
    return new VllmOptions(
        name,
        listen,
        model,
        servedModelName,
        kvEvents,
        blockSizeTokens,
        gpuBlocks,
        maxModelTokens,
        maxRunningRequests,
        hashAlgorithm,
        pythonHashSeed,
        intBlockHashes,
        arguments,
        environment);
  }

  List<String> command(Path python) {
    List<String> command =
        new ArrayList<>(List.of(python.toString(), "-m", "vllm.entrypoints.cli.main", "serve"));
    command.add(model.toString());
    command.addAll(
        List.of(
            "--served-model-name",
            servedModelName,
            "--host",
            listen.host(),
            "--port",
            Integer.toString(listen.port()),
            "--max-model-len",
            Integer.toString(maxModelTokens),
            "--max-num-seqs",
            Integer.toString(maxRunningRequests),
            "--enforce-eager",
            "--block-size",
            Integer.toString(blockSizeTokens),
            "--num-gpu-blocks-override",
            Integer.toString(gpuBlocks),
            "--enable-prefix-caching",
            "--prefix-caching-hash-algo",
            hashAlgorithm,
            // Usage then tells how many prompt tokens were cached: the truth that predictions are
            // compared with.
            "--enable-prompt-tokens-details",
            "--enable-request-id-headers"));
    kvEvents.ifPresent(events -> command.addAll(List.of("--kv-events-config", events.toJson())));
    command.addAll(moreArguments);
    return command;
  }

  Map<String, String> environment() {
    Map<String, String> environment = new LinkedHashMap<>();
    environment.put("VLLM_CPU_KVCACHE_SPACE", "1"); // GiB, more than the blocks above take
    environment.put("VLLM_NO_USAGE_STATS", "1");
    environment.put("DO_NOT_TRACK", "1");
    environment.put("HF_HUB_OFFLINE", "1");
    environment.put("VLLM_HOST_IP", "127.0.0.1");
    // Each worker would otherwise start a thread per core and pin them all to the same cores.
    environment.put("OMP_NUM_THREADS", "1");
    environment.put("VLLM_CPU_OMP_THREADS_BIND", "nobind");
    // POST /reset_prefix_cache and friends, for tests of what happens when a cache is cleared.
    environment.put("VLLM_SERVER_DEV_MODE", "1");
    environment.put("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", intBlockHashes ? "1" : "0");
    pythonHashSeed.ifPresent(seed -> environment.put("PYTHONHASHSEED", seed));
    environment.putAll(moreEnvironment);
    return environment;
  }
}
