// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.tuple;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.FallbackPolicy;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.config.ConfigLoader.FileCheck;
import io.kvoy.server.config.ConfigProblem.Kind;
import io.kvoy.server.config.ModelPool.KvEvents;
import io.kvoy.server.config.ModelPool.StaticWorker;
import io.kvoy.tokenizer.chat.ContentFormat;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConfigLoaderTest {
  private static final Path FILE = Path.of("/etc/kvoy/kvoy.yaml");

  private static final String POOL =
      """
      apiVersion: inference.kvoy.io/v1alpha1
      kind: ModelPool
      metadata: {name: main}
      spec:
        tokenizer: qwen3
        workers:
        - address: 10.0.0.7:8000
      """;

  /** A file whose only wrong part is {@code spec} of KvoyConfig, which starts in line 5. */
  private static String withConfig(String spec) {
    return """
    apiVersion: inference.kvoy.io/v1alpha1
    kind: KvoyConfig
    spec:
    %s
    ---
    """
            .formatted(spec.indent(2).stripTrailing())
        + POOL;
  }

  /** A file with one pool whose spec starts in line 5. */
  private static String withPool(String spec) {
    return """
    apiVersion: inference.kvoy.io/v1alpha1
    kind: ModelPool
    metadata: {name: main}
    spec:
    %s
    """
        .formatted(spec.indent(2).stripTrailing());
  }

  private static ConfigResult parse(String text) {
    return ConfigLoader.parse(text.getBytes(StandardCharsets.UTF_8), FILE, FileCheck.IGNORE);
  }

  private static KvoyConfigFile loaded(String text) {
    return switch (parse(text)) {
      case ConfigResult.Loaded(KvoyConfigFile file) -> file;
      case ConfigResult.Rejected rejected -> throw new AssertionError(rejected.text());
    };
  }

  private static List<ConfigProblem> problems(String text) {
    return switch (parse(text)) {
      case ConfigResult.Loaded(KvoyConfigFile file) -> throw new AssertionError("loaded " + file);
      case ConfigResult.Rejected(List<ConfigProblem> problems) -> problems;
    };
  }

  private static List<String> messages(String text) {
    return problems(text).stream().map(ConfigProblem::message).toList();
  }

  @Test
  void aPoolOfStaticWorkersAndATokenizerIsACompleteConfiguration() {
    KvoyConfigFile file = loaded(POOL);

    assertThat(file.config()).isEqualTo(KvoyConfig.allDefaults());
    assertThat(file.pools())
        .containsExactly(
            new ModelPool(
                "main",
                List.of(),
                List.of(),
                Optional.of(Path.of("/etc/kvoy/qwen3")),
                Optional.empty(),
                Optional.empty(),
                Optional.empty(),
                Optional.empty(),
                16,
                Duration.ofMillis(200),
                Duration.ofSeconds(2),
                Duration.ofSeconds(1),
                Duration.ofSeconds(2),
                false,
                0,
                false,
                Optional.empty(),
                List.of(
                    new StaticWorker(
                        "10.0.0.7:8000", new Endpoint("10.0.0.7", 8000), Optional.empty()))));
  }

  @Test
  void everyFieldIsMappedToItsOwnComponent() {
    KvoyConfigFile file =
        loaded(
            """
            apiVersion: inference.kvoy.io/v1alpha1
            kind: KvoyConfig
            metadata:
              name: edge
              labels: {team: ml}
            spec:
              listen:
                address: 10.1.2.3
                extProc: 1001
                health: 0.0.0.0:1002
                admin: "[::1]:1003"
                xds: 1004
                reports: 1005
                inferenceHandler: 1006
              tls: {certificateFolder: certs, checkFiles: 1s}
              envoy:
                listen: 0.0.0.0:80
                extProc: kvoy.example:1001
                reports: kvoy.example:1005
                plainListen: 0.0.0.0:81
                requestBody: FULL_DUPLEX_STREAMED
                answers: reported
                fallback: ROUND_ROBIN
                failOpen: false
                checkWorkerHealth: true
                trustIdentityHeaders: true
                idleTimeout: 3m
                firstTokenNotice: 1s
                reportUsage: false
                accessLog: /dev/stdout
                extProcTls: {caFile: /etc/ca.pem, serverName: kvoy.example}
              limits:
                maxRequestBody: 1MiB
                maxDecodedBody: 2MiB
                maxHeaderBytes: 8KiB
                maxStreams: 7
              timeouts:
                bodyWait: 1s
                decision: 20ms
                inFlightExpiry: 1h
                scrape: 30ms
                drain: 0s
              defaults:
                blockSize: 32
                scrapeInterval: 50ms
                staleAfter: 500ms
                healthInterval: 5s
                targetTtft: 750ms
              tokenizers:
                root: models
                threads: 3
                checkFiles: 2s
                memory: 8MiB
                hub:
                  url: http://mirror.local:8080/hf
                  cache: /var/cache/kvoy
                  tokenFile: /run/secrets/hub
                  tokenVariable: HUB_TOKEN
                  timeout: 3s
                  refresh: 2h
              parity:
                samplesPerMinute: 60
                maxBody: 1MiB
                timeout: 1s
                threshold: 5
              logging:
                level: warn
                levels: {io.kvoy: DEBUG}
                repeatPeriod: 10s
              feedback:
                responseHeaders: true
                decisionRecords: 9
            ---
            apiVersion: inference.kvoy.io/v1alpha1
            kind: ModelPool
            metadata: {name: chat}
            spec:
              models: [qwen, "7"]
              adapters: [sql-lora]
              tokenizer: qwen3
              chatTemplate: /t/chat.jinja
              chatFlags:
                defaultKwargs: '{"enable_thinking": false}'
                contentFormat: openai
                excludeToolsWhenToolChoiceNone: true
              blockSize: 64
              scrapeInterval: 1s
              staleAfter: 3s
              healthInterval: 2s
              targetTtft: 300ms
              refuseOverTarget: true
              queue:
                maxWaiting: 9
                timeout: 5s
                objectives:
                  interactive: 10
                  batch: -1
                trustHeaders: true
              fallbacks: 2
              injectUsage: true
              workers:
              - name: gpu-0
                address: "[2001:db8::7]:8000"
                kvEvents:
                  endpoint: tcp://[2001:db8::7]:5557
                  replayEndpoint: tcp://[2001:db8::7]:5657
                  topic: kv@
                  dataParallelRanks: 2
              - name: gpu-1
                address: 10.0.0.8:8000
                kvEvents: {endpoint: "tcp://*:6000", bind: true}
              - name: gpu-2
                address: 10.0.0.9:8000
                kvEvents: {discover: true}
            """);

    assertThat(file.config())
        .isEqualTo(
            new KvoyConfig(
                "edge",
                new KvoyConfig.Listen(
                    "10.1.2.3",
                    new ListenAddress.Tcp("10.1.2.3", 1001),
                    new ListenAddress.Tcp("0.0.0.0", 1002),
                    new ListenAddress.Tcp("::1", 1003),
                    new ListenAddress.Tcp("10.1.2.3", 1004),
                    new ListenAddress.Tcp("10.1.2.3", 1005),
                    new ListenAddress.Tcp("10.1.2.3", 1006)),
                Optional.of(
                    new KvoyConfig.Tls(Optional.of(Path.of("certs")), Duration.ofSeconds(1))),
                new KvoyConfig.Envoy(
                    new Endpoint("0.0.0.0", 80),
                    Optional.of(new Endpoint("kvoy.example", 1001)),
                    Optional.of(new Endpoint("kvoy.example", 1005)),
                    Optional.of(new Endpoint("0.0.0.0", 81)),
                    RequestBodyMode.FULL_DUPLEX_STREAMED,
                    ResponseBodyMode.REPORTED,
                    FallbackPolicy.ROUND_ROBIN,
                    false,
                    true,
                    true,
                    Duration.ofMinutes(3),
                    Duration.ofSeconds(1),
                    false,
                    Optional.of("/dev/stdout"),
                    Optional.of(new KvoyConfig.EnvoyTls("/etc/ca.pem", "kvoy.example"))),
                new KvoyConfig.Limits(
                    new DataSize(1 << 20), new DataSize(2 << 20), new DataSize(8 << 10), 7),
                new KvoyConfig.Timeouts(
                    Duration.ofSeconds(1),
                    Duration.ofMillis(20),
                    Duration.ofHours(1),
                    Duration.ofMillis(30),
                    Duration.ZERO),
                new KvoyConfig.PoolDefaults(
                    32,
                    Duration.ofMillis(50),
                    Duration.ofMillis(500),
                    Duration.ofSeconds(5),
                    Duration.ofMillis(750)),
                new KvoyConfig.Tokenizers(
                    Path.of("models"),
                    3,
                    Duration.ofSeconds(2),
                    new DataSize(8 << 20),
                    new KvoyConfig.Hub(
                        "http://mirror.local:8080/hf",
                        Path.of("/var/cache/kvoy"),
                        Optional.of(Path.of("/run/secrets/hub")),
                        "HUB_TOKEN",
                        Duration.ofSeconds(3),
                        Duration.ofHours(2))),
                new KvoyConfig.Parity(60, new DataSize(1 << 20), Duration.ofSeconds(1), 5),
                new KvoyConfig.Logging(
                    LogLevel.WARN, Map.of("io.kvoy", LogLevel.DEBUG), Duration.ofSeconds(10)),
                new KvoyConfig.Feedback(true, 9)));
    assertThat(file.pools())
        .containsExactly(
            new ModelPool(
                "chat",
                List.of("qwen", "7"),
                List.of("sql-lora"),
                Optional.of(Path.of("/etc/kvoy/models/qwen3")),
                Optional.empty(),
                Optional.empty(),
                Optional.of(Path.of("/t/chat.jinja")),
                Optional.of(
                    new ModelPool.ChatFlags(
                        Optional.of("{\"enable_thinking\": false}"),
                        Optional.of(ContentFormat.OPENAI),
                        true)),
                64,
                Duration.ofSeconds(1),
                Duration.ofSeconds(3),
                Duration.ofSeconds(2),
                Duration.ofMillis(300),
                true,
                2,
                true,
                Optional.of(
                    new ModelPool.Queue(
                        9, Duration.ofSeconds(5), Map.of("interactive", 10, "batch", -1), true)),
                List.of(
                    new StaticWorker(
                        "gpu-0",
                        new Endpoint("2001:db8::7", 8000),
                        Optional.of(
                            new KvEvents(
                                false,
                                Optional.of("tcp://[2001:db8::7]:5557"),
                                Optional.of("tcp://[2001:db8::7]:5657"),
                                false,
                                "kv@",
                                2))),
                    new StaticWorker(
                        "gpu-1",
                        new Endpoint("10.0.0.8", 8000),
                        Optional.of(
                            new KvEvents(
                                false,
                                Optional.of("tcp://*:6000"),
                                Optional.empty(),
                                true,
                                "",
                                1))),
                    new StaticWorker(
                        "gpu-2",
                        new Endpoint("10.0.0.9", 8000),
                        Optional.of(
                            new KvEvents(
                                true, Optional.empty(), Optional.empty(), false, "", 1))))));
    assertThat(everyValueDiffersFromItsDefault(file.config(), KvoyConfig.allDefaults()))
        .as("a value equal to its default would not show that it is read")
        .isTrue();
  }

  private static boolean everyValueDiffersFromItsDefault(Record a, Record b) {
    return SectionShape.of(a.getClass()).fields().stream()
        .allMatch(
            field ->
                (field.leaf() == null && field.arity() == SectionShape.Arity.ONE)
                    ? everyValueDiffersFromItsDefault(
                        (Record) field.valueIn(a), (Record) field.valueIn(b))
                    : !field.valueIn(a).equals(field.valueIn(b)));
  }

  @Test
  void defaultsOfTheEnvoySectionAreThoseOfTheStaticBootstrap() {
    KvoyConfig defaults = KvoyConfig.allDefaults();

    assertThat(defaults.envoy().options(defaults.listen(), defaults.tls(), defaults.limits()))
        .isEqualTo(EnvoyBootstrap.builder().buildForXds());
  }

  @Test
  void emptyTlsSectionEncryptsWithDefaultsAndEnvoysMustThenBeTold() {
    assertThat(loaded(withConfig("tls: {}")).config().tls())
        .contains(new KvoyConfig.Tls(Optional.empty(), Duration.ofSeconds(10)));
    assertThat(messages(withConfig("tls: {}\nlisten: {xds: 9004}")))
        .singleElement()
        .asString()
        .contains("the ext_proc door speaks TLS", "envoy.extProcTls");
  }

  @Test
  void overXdsEverythingMustBeAnAddressThatEnvoyCanUse() {
    assertThat(messages(withConfig("listen: {address: 0.0.0.0, xds: 9004}")))
        .singleElement()
        .asString()
        .contains("listen.extProc (0.0.0.0:9002) is no address to connect to", "envoy.extProc");
    assertThat(messages(withConfig("listen: {xds: 9004}\nenvoy: {listen: 'localhost:8080'}")))
        .singleElement()
        .asString()
        .contains("listen must be an IP address");
    assertThat(
            messages(
                withConfig("listen: {xds: 9004}").replace("10.0.0.7:8000", "vllm-0.local:8000")))
        .singleElement()
        .asString()
        .contains("worker address 'vllm-0.local:8000' is a name");
    // Without xDS nobody uses it.
    assertThat(loaded(withConfig("envoy: {listen: 'localhost:8080'}")).pools()).hasSize(1);
  }

  @Test
  void allDefaults() {
    KvoyConfig defaults = KvoyConfig.allDefaults();

    assertThat(defaults)
        .isEqualTo(
            new KvoyConfig(
                "kvoy",
                new KvoyConfig.Listen(
                    "127.0.0.1",
                    new ListenAddress.Tcp("127.0.0.1", 9002),
                    new ListenAddress.Tcp("127.0.0.1", 9003),
                    new ListenAddress.Tcp("127.0.0.1", 9090),
                    ListenAddress.Off.OFF,
                    new ListenAddress.Tcp("127.0.0.1", 9005),
                    new ListenAddress.Tcp("127.0.0.1", 9006)),
                Optional.empty(),
                new KvoyConfig.Envoy(
                    new Endpoint("127.0.0.1", 8080),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    RequestBodyMode.BUFFERED,
                    ResponseBodyMode.STREAMED,
                    FallbackPolicy.LEAST_REQUEST,
                    true,
                    false,
                    false,
                    Duration.ofMinutes(10),
                    Duration.ofMillis(200),
                    true,
                    Optional.empty(),
                    Optional.empty()),
                new KvoyConfig.Limits(
                    new DataSize(32 << 20), new DataSize(64 << 20), new DataSize(64 << 10), 40_000),
                new KvoyConfig.Timeouts(
                    Duration.ofSeconds(30),
                    Duration.ofMillis(500),
                    Duration.ofMinutes(15),
                    Duration.ofSeconds(1),
                    Duration.ofSeconds(30)),
                new KvoyConfig.PoolDefaults(
                    16,
                    Duration.ofMillis(200),
                    Duration.ofSeconds(2),
                    Duration.ofSeconds(1),
                    Duration.ofSeconds(2)),
                new KvoyConfig.Tokenizers(
                    Path.of("."),
                    0,
                    Duration.ofSeconds(30),
                    new DataSize(64 << 20),
                    new KvoyConfig.Hub(
                        "https://huggingface.co",
                        Path.of("kvoy-hub"),
                        Optional.empty(),
                        "HF_TOKEN",
                        Duration.ofSeconds(30),
                        Duration.ofHours(1))),
                new KvoyConfig.Parity(6, new DataSize(256 << 10), Duration.ofSeconds(5), 3),
                new KvoyConfig.Logging(LogLevel.INFO, Map.of(), Duration.ofMinutes(1)),
                new KvoyConfig.Feedback(false, 4096)));
  }

  @Test
  void aTokenizerMayComeFromAHubOrFromTheWorkers() {
    ModelPool hub =
        loaded(withPool("tokenizerHub: {repository: Qwen/Qwen3-8B}\nworkers: [{address: a:1}]"))
            .pools()
            .getFirst();
    ModelPool asked =
        loaded(withPool("tokenizerWorker: {}\nworkers: [{address: a:1}]")).pools().getFirst();

    assertThat(hub.tokenizerHub()).contains(new ModelPool.HubTokenizer("Qwen/Qwen3-8B", "main"));
    assertThat(asked.tokenizerWorker())
        .contains(new ModelPool.WorkerTokenizer(Duration.ofMillis(250), 32));
  }

  @Test
  void aPoolsTokensHaveOneSource() {
    assertThat(
            messages(
                withPool(
                    """
                    tokenizer: qwen3
                    tokenizerWorker: {}
                    chatTemplate: t.jinja
                    workers: [{address: "a:1"}]
                    """)))
        .hasSize(2)
        .anyMatch(m -> m.contains("'tokenizer' and 'tokenizerWorker' are both given"))
        .anyMatch(m -> m.contains("'chatTemplate' has no effect"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"../x", "a/../b", "a/b/c", "/a", "a//b", "a b/c", "-a/b", "o--x/n"})
  void aHubRepositoryIsNoWayOutOfTheCache(String repository) {
    assertThat(
            messages(
                withPool(
                    "tokenizerHub: {repository: \"%s\"}\nworkers: [{address: a:1}]"
                        .formatted(repository))))
        .singleElement()
        .asString()
        .contains("a hub repository such as");
  }

  @Test
  void poolsInheritTheDefaultsOfTheProcess() {
    ModelPool pool =
        loaded(withConfig("defaults: {blockSize: 64, scrapeInterval: 1s}")).pools().getFirst();

    assertThat(pool.blockSize()).isEqualTo(64);
    assertThat(pool.scrapeInterval()).isEqualTo(Duration.ofSeconds(1));
    assertThat(pool.staleAfter()).isEqualTo(Duration.ofSeconds(2));
  }

  @Test
  void poolsInheritAlsoFromAConfigThatStandsBelowThem() {
    String text =
        POOL
            + """
            ---
            apiVersion: inference.kvoy.io/v1alpha1
            kind: KvoyConfig
            spec: {defaults: {blockSize: 64}}
            """;

    assertThat(loaded(text).pools().getFirst().blockSize()).isEqualTo(64);
  }

  @Test
  void aMisspeltFieldIsNamedWithItsLineAndTheNearestOne() {
    assertThat(
            messages(
                withPool(
                    """
                    models:
                    - a
                    - b
                    - c
                    - d
                    - e
                    blockSize: 16
                    tokeniser: qwen3
                    workers: [{address: 'a:1'}]
                    """)))
        .containsExactly(
            "unknown field 'tokeniser' in ModelPool.spec at line 12; did you mean 'tokenizer'?");
  }

  @Test
  void aFieldInTheWrongSectionIsSentToTheRightOne() {
    assertThat(messages(withConfig("blockSize: 3")))
        .containsExactly(
            "unknown field 'blockSize' in KvoyConfig.spec at line 4;"
                + " it belongs to spec.defaults.blockSize");
  }

  @Test
  void aFieldLikeNoneIsAnsweredWithAllThatExist() {
    assertThat(messages(withConfig("tokenizers: {zzz: 3}")))
        .containsExactly(
            "unknown field 'zzz' in KvoyConfig.spec.tokenizers at line 4;"
                + " known fields: root, threads, checkFiles, memory, hub");
  }

  @Test
  void allProblemsOfAFileAreReportedInItsOrder() {
    List<String> messages =
        messages(
            """
            apiVersion: inference.kvoy.io/v1alpha1
            kind: KvoyConfig
            spec:
              listen: {extProc: 70000}
              timeouts: {decision: 5}
              limits: {maxRequestBody: 32MB}
            ---
            apiVersion: inference.kvoy.io/v1
            kind: ModelPool
            metadata: {name: Main}
            spec: {models: qwen}
            ---
            kind: ModelPol
            ---
            just text
            """);

    assertThat(messages)
        .containsExactly(
            "expected a port, host:port or off, saw '70000' in KvoyConfig.spec.listen.extProc"
                + " at line 4",
            "expected a duration with its unit (ns, us, ms, s, m, h, d) such as 250ms, saw '5'"
                + " in KvoyConfig.spec.timeouts.decision at line 5",
            "expected a size with its unit (B, KiB, MiB, GiB) such as 32MiB, saw '32MB'"
                + " in KvoyConfig.spec.limits.maxRequestBody at line 6",
            "expected apiVersion 'inference.kvoy.io/v1alpha1', saw 'inference.kvoy.io/v1'"
                + " in ModelPool at line 8",
            "expected a name of at most 63 lower-case letters, digits, '-' and '.', saw 'Main'"
                + " in ModelPool.metadata.name at line 10",
            "field 'workers' is missing in ModelPool.spec at line 11;"
                + " expected a list of mappings",
            "expected a list, each item a model name of 1 to 256 characters without spaces,"
                + " saw 'qwen' in ModelPool.spec.models at line 11",
            "unknown kind 'ModelPol' in the document at line 13; did you mean 'ModelPool'?",
            "expected a mapping with apiVersion, kind, metadata and spec, saw 'just text'"
                + " in the file at line 15");
  }

  @Test
  void problemsCarryTheColumn() {
    ConfigProblem problem = problems(withConfig("listen: {extProc: none}")).getFirst();

    assertThat(problem.line()).isEqualTo(4);
    assertThat(problem.column()).isEqualTo(21);
  }

  @Test
  void POL_05_aKeyWrittenTwiceIsRefusedWithBothLines() throws IOException {
    String text = resource("pol-duplicate-key.yaml");

    assertThat(messages(text))
        .contains(
            "key 'action' is written twice in one mapping at line 6;"
                + " it stands already at line 5, remove one of them");
  }

  @Test
  void POL_05_aKeyWrittenTwiceIsRefusedAtEveryLevel() {
    String text =
        """
        apiVersion: inference.kvoy.io/v1alpha1
        kind: ModelPool
        kind: ModelPool
        metadata: {name: main, "name": main}
        spec:
          workers:
          - address: a:1
            address: a:2
          workers: []
        """;

    assertThat(problems(text))
        .extracting(ConfigProblem::kind, ConfigProblem::line)
        .containsExactly(
            tuple(Kind.DUPLICATE_KEY, 3),
            tuple(Kind.DUPLICATE_KEY, 4),
            tuple(Kind.DUPLICATE_KEY, 8),
            tuple(Kind.DUPLICATE_KEY, 9));
  }

  @ParameterizedTest(name = "{0}: {1}")
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "decision | 250ms | PT0.25S",
        "decision | 1.5s | PT1.5S",
        "decision | 1500us | PT0.0015S",
        "decision | 1m | PT1M",
        "inFlightExpiry | 1d | PT24H",
        "inFlightExpiry | 2h | PT2H",
        "decision | '5ms' | PT0.005S",
      })
  void durationsAreReadWithTheirUnit(String field, String written, Duration expected) {
    KvoyConfig.Timeouts timeouts =
        loaded(withConfig("timeouts: {%s: %s}".formatted(field, written))).config().timeouts();

    assertThat(field.equals("decision") ? timeouts.decision() : timeouts.inFlightExpiry())
        .isEqualTo(expected);
  }

  @ParameterizedTest
  @CsvSource({"1KiB,1024", "1.5KiB,1536", "2048B,2048", "1GiB,1073741824", "3MiB,3145728"})
  void sizesAreReadWithTheirUnit(String written, long bytes) {
    assertThat(
            loaded(withConfig("limits: {maxRequestBody: " + written + "}"))
                .config()
                .limits()
                .maxRequestBody())
        .isEqualTo(new DataSize(bytes));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "timeouts: {decision: 5}",
        "timeouts: {decision: -5ms}",
        "timeouts: {decision: 5 ms}",
        "timeouts: {decision: 1m30s}",
        "timeouts: {decision: 0.5ns}",
        "timeouts: {decision: 999999999999d}",
        "timeouts: {decision: }",
        "timeouts: {decision: [5ms]}",
        "timeouts: []",
        "limits: {maxRequestBody: 1.0001KiB}",
        "limits: {maxRequestBody: 999999999999999999GiB}",
        "limits: {maxStreams: '7'}",
        "limits: {maxStreams: 7.0}",
        "limits: {maxStreams: 99999999999}",
        "limits: {maxStreams: 0x10}",
        "feedback: {responseHeaders: 'true'}",
        "feedback: {responseHeaders: yes}",
        "logging: {level: LOUD}",
        "logging: {levels: {'a b': INFO}}",
        "logging: {levels: {a: 1}}",
        "listen: {extProc: 'localhost'}",
        "listen: {extProc: '::1:9002'}",
        "listen: {extProc: -1}",
        "listen: {extProc: true}",
        "listen: {address: 'a b'}",
        "listen: {address: '[::1]'}",
        "tokenizers: {root: ''}",
      })
  void aValueOfAnotherShapeIsRefused(String spec) {
    assertThat(problems(withConfig(spec)))
        .extracting(ConfigProblem::kind)
        .containsExactly(Kind.WRONG_TYPE);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "limits: {maxStreams: 0} | 1 to 1000000",
        "limits: {maxStreams: 1000001} | 1 to 1000000",
        "limits: {maxRequestBody: 1023B} | 1KiB to 1GiB",
        "timeouts: {decision: 2m} | 1ms to 1m",
        "timeouts: {inFlightExpiry: 2d} | 1s to 1d",
      })
  void aValueOutOfRangeIsAnsweredWithTheRange(String spec, String range) {
    ConfigProblem problem = problems(withConfig(spec)).getFirst();

    assertThat(problem.kind()).isEqualTo(Kind.OUT_OF_RANGE);
    assertThat(problem.what()).startsWith("expected " + range + ", saw ");
  }

  @Test
  void environmentVariablesAreNotPutIn() {
    assertThat(messages(withConfig("logging: {level: '${LEVEL}'}")))
        .singleElement()
        .asString()
        .endsWith("environment variables are not put in; write the value itself");
  }

  @Test
  void aNumberWhereTextIsMeantIsAnsweredWithTheCure() {
    assertThat(messages(withPool("models: [7]\nworkers: [{address: 'a:1'}]")))
        .singleElement()
        .asString()
        .endsWith(
            "saw '7' in ModelPool.spec.models[0] at line 5; if it is meant as text, quote it");
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      value = {
        "listen: {extProc: 9003} | PORT_COLLISION",
        "listen: {extProc: '0.0.0.0:9003'} | PORT_COLLISION",
        "listen: {address: '::', extProc: '127.0.0.1:9090'} | PORT_COLLISION",
        "defaults: {scrapeInterval: 3s} | INTERVAL_CONFLICT",
        "defaults: {staleAfter: 100ms} | INTERVAL_CONFLICT",
      })
  void settingsThatContradictEachOtherAreRefused(String spec, Kind kind) {
    assertThat(problems(withConfig(spec)))
        .extracting(ConfigProblem::kind)
        .contains(kind)
        .allMatch(k -> k == kind);
  }

  @Test
  void aCollisionNamesBothDoors() {
    assertThat(messages(withConfig("listen:\n  extProc: 9003")))
        .containsExactly(
            "extProc (127.0.0.1:9003) and health (127.0.0.1:9003) listen on the same port"
                + " in KvoyConfig.spec.listen at line 5;"
                + " give one of them another port, or turn it off");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "listen: {extProc: 0, health: 0}",
        "listen: {extProc: off, health: off}",
        "listen: {extProc: '10.0.0.1:9003'}",
      })
  void doorsThatDoNotMeetDoNotCollide(String spec) {
    assertThat(parse(withConfig(spec))).isInstanceOf(ConfigResult.Loaded.class);
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "[{address: 'a:1'}, {address: 'a:1', name: b}] | DUPLICATE_WORKER_ADDRESS",
        "[{address: 'a:1', name: x}, {address: 'a:2', name: x}] | DUPLICATE_WORKER_NAME",
        "[] | OUT_OF_RANGE",
        "[{address: 'a:1', kvEvents: {}}] | KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://*:5557'}}] | KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {discover: true, bind: true}}] | KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {discover: true, endpoint: 'tcp://a:1'}}] |"
            + " KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://a:1', replayEndpoint: 'tcp://*:1'}}] |"
            + " KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://a:0'}}] | KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://a:65535', dataParallelRanks: 2}}] |"
            + " KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {endpoint: 'ipc:///kv', dataParallelRanks: 2}}] |"
            + " KV_EVENTS_CONFLICT",
        "[{address: 'a:1', kvEvents: {endpoint: 'udp://a:1'}}] | WRONG_TYPE",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://*:9002', bind: true}}] | PORT_COLLISION",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://a:1'}},"
            + " {address: 'a:2', kvEvents: {endpoint: 'tcp://a:1'}}] | DUPLICATE_KV_EVENTS",
        "[{address: 'a:1', kvEvents: {endpoint: 'tcp://a:1', dataParallelRanks: 2}},"
            + " {address: 'a:2', kvEvents: {endpoint: 'tcp://a:2'}}] | DUPLICATE_KV_EVENTS",
        "[{address: 'a'}] | WRONG_TYPE",
        "[{name: a}] | MISSING_FIELD",
      })
  void workersThatContradictEachOtherAreRefused(String workers, Kind kind) {
    assertThat(problems(withPool("workers: " + workers)))
        .extracting(ConfigProblem::kind)
        .containsExactly(kind);
  }

  @ParameterizedTest(name = "{0} and {1}")
  @CsvSource(
      delimiter = '|',
      value = {
        "models: [a] | models: [a] | DUPLICATE_MODEL",
        "models: [a] | {models: [b], adapters: [a]} | DUPLICATE_MODEL",
        "adapters: [x] | models: [a] | ",
        "models: [] | models: [] | DUPLICATE_MODEL",
        "models: [a] | models: [] | ",
        "models: [a, a] | models: [b] | DUPLICATE_MODEL",
      })
  void eachModelHasOnePool(String first, String second, String kind) {
    String one = first.startsWith("{") ? first.substring(1, first.length() - 1) : first;
    String two = second.startsWith("{") ? second.substring(1, second.length() - 1) : second;
    String text =
        withPool(one.replace(", adapters", "\nadapters") + "\nworkers: [{address: 'a:1'}]")
            + "---\n"
            + withPool(two.replace(", adapters", "\nadapters") + "\nworkers: [{address: 'a:2'}]")
                .replace("name: main", "name: second");

    if (kind == null) {
      assertThat(loaded(text).pools()).hasSize(2);
    } else {
      assertThat(problems(text)).extracting(problem -> problem.kind().name()).containsExactly(kind);
    }
  }

  @Test
  void twoPoolsOfOneNameAreRefused() {
    String text =
        withPool("models: [a]\nworkers: [{address: 'a:1'}]")
            + "---\n"
            + withPool("models: [b]\nworkers: [{address: 'a:2'}]");

    assertThat(messages(text))
        .containsExactly(
            "pool name 'main' is taken in ModelPool.metadata.name at line 8;"
                + " by another pool at line 1");
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "# nothing\n", "---\n---\n", "null"})
  void aFileWithoutAPoolIsRefused(String text) {
    assertThat(problems(text)).extracting(ConfigProblem::kind).containsExactly(Kind.NO_POOL);
  }

  @Test
  void aSecondProcessConfigurationIsRefused() {
    String config = "apiVersion: inference.kvoy.io/v1alpha1\nkind: KvoyConfig\n---\n";

    assertThat(problems(config + config + POOL))
        .extracting(ConfigProblem::kind)
        .containsExactly(Kind.SECOND_CONFIG);
  }

  @Test
  void aSyntaxErrorIsReportedWithItsLineAndTheProblemsBeforeIt() {
    List<ConfigProblem> problems =
        problems(withPool("workers: [{address: a}]") + "---\nspec: {cacheWeight: [");

    assertThat(problems)
        .extracting(ConfigProblem::kind)
        .containsExactly(Kind.WRONG_TYPE, Kind.SYNTAX);
    assertThat(problems.getLast().line()).isEqualTo(7);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "a: *b",
        "a: &x {b: *x}",
        "a: !!java.lang.String x",
        "a: !secret x",
        "<<: {a: 1}",
        "? [a]\n: b",
        "? {a: b}\n: c",
        "a: \u0000",
        "a: \t- b",
        "\"unclosed",
        "%FOO 1\n",
        "- a\nb: c",
      })
  void yamlThatIsNotUsedHereIsRefused(String text) {
    assertThat(problems(text)).extracting(ConfigProblem::kind).containsOnlyOnce(Kind.SYNTAX);
  }

  @Test
  void aliasesAreAllowedForRepeatedParts() {
    KvoyConfigFile file =
        loaded(
            withPool(
                """
                workers:
                - {address: 'a:1', kvEvents: &events {discover: true}}
                - {address: 'a:2', kvEvents: *events}
                """));

    assertThat(file.pools().getFirst().workers())
        .extracting(worker -> worker.kvEvents().orElseThrow().discover())
        .containsExactly(true, true);
  }

  @Test
  void aliasesCannotMultiplyWithoutBound() {
    StringBuilder text = new StringBuilder("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
      String alias = "*a" + (i - 1);
      text.append("a%d: &a%d [".formatted(i, i))
          .append(String.join(", ", Collections.nCopies(10, alias)))
          .append("]\n");
    }

    assertThat(messages(text.toString()))
        .singleElement()
        .asString()
        .startsWith("more than 200000 values");
  }

  @Test
  void nestingIsBounded() {
    assertThat(problems("a: " + "[".repeat(100_000)))
        .extracting(ConfigProblem::message)
        .containsExactly("nesting deeper than 32 levels in the file at line 1");
  }

  @Test
  void aFileIsReadUpToItsBound(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("kvoy.yaml");
    Files.write(file, new byte[ConfigLoader.MAX_FILE_BYTES + 1]);

    assertThat(ConfigLoader.load(file))
        .isInstanceOfSatisfying(
            ConfigResult.Rejected.class,
            rejected -> assertThat(rejected.text()).endsWith("is larger than 4194304 bytes"));
  }

  @Test
  void aMissingFileIsSaidToBeMissing(@TempDir Path folder) {
    assertThat(ConfigLoader.load(folder.resolve("kvoy.yaml")))
        .isInstanceOfSatisfying(
            ConfigResult.Rejected.class,
            rejected ->
                assertThat(rejected.text())
                    .endsWith("kvoy.yaml' does not exist; check the path given to --config"));
  }

  @Test
  void bytesThatAreNoTextAreRefusedWithTheirLine() {
    byte[] bytes = "a: b\nc: \u00ff".getBytes(StandardCharsets.ISO_8859_1);

    assertThat(ConfigLoader.parse(bytes, FILE, FileCheck.IGNORE))
        .isInstanceOfSatisfying(
            ConfigResult.Rejected.class,
            rejected ->
                assertThat(rejected.text())
                    .isEqualTo(
                        "a byte sequence that is no UTF-8 in the file at line 2;"
                            + " save the file as UTF-8"));
  }

  @Test
  void aByteOrderMarkIsIgnored() {
    assertThat(loaded("\uFEFF" + POOL).pools()).hasSize(1);
  }

  @Test
  void theListOfProblemsIsBounded() {
    String workers =
        IntStream.range(0, 300).mapToObj(_ -> "- {address: x}").collect(Collectors.joining("\n"));

    List<ConfigProblem> problems = problems(withPool("workers:\n" + workers));

    assertThat(problems).hasSize(Problems.MAX_LISTED + 1);
    assertThat(problems.getLast().what()).isEqualTo("200 more problems");
  }

  @Test
  void aTokenizerThatIsNotThereIsRefusedOnTheMachineThatNeedsIt(@TempDir Path folder)
      throws IOException {
    Path file = folder.resolve("kvoy.yaml");
    Files.writeString(file, POOL);

    assertThat(ConfigLoader.load(file, FileCheck.IGNORE)).isInstanceOf(ConfigResult.Loaded.class);
    assertThat(ConfigLoader.load(file))
        .isInstanceOfSatisfying(
            ConfigResult.Rejected.class,
            rejected ->
                assertThat(rejected.problems())
                    .extracting(ConfigProblem::kind, ConfigProblem::line)
                    .containsExactly(tuple(Kind.FILE_NOT_FOUND, 5)));

    Files.createDirectory(folder.resolve("qwen3"));
    Files.writeString(folder.resolve("qwen3/tokenizer.json"), "{}");
    assertThat(ConfigLoader.load(file)).isInstanceOf(ConfigResult.Loaded.class);
  }

  /** Seeded, so that a failure repeats. */
  @Test
  void whateverBecomesOfAFileItIsJudgedAndNothingIsThrown() {
    String[] pieces = {
      "{",
      "}",
      "[",
      "]",
      ": ",
      "- ",
      "\n",
      "  ",
      "&a ",
      "*a",
      "'",
      "\"",
      "|",
      ">",
      "#",
      "!",
      "%",
      "---\n",
      "\t",
      "\0",
      "9",
      "ms",
      "~",
      "<<: ",
      "? ",
      "\u00e9",
      "\ud83d",
      "kvEvents"
    };
    Random random = new Random(42);
    for (int i = 0; i < 400; i++) {
      StringBuilder text = new StringBuilder(withConfig("listen: {extProc: 1}\ndefaults: {}"));
      for (int edits = 1 + random.nextInt(4); edits > 0; edits--) {
        int from = random.nextInt(text.length());
        int to = Math.min(text.length(), from + random.nextInt(6));
        text.replace(from, to, pieces[random.nextInt(pieces.length)]);
      }
      String input = text.toString();
      assertThatCode(() -> parse(input)).as("input %d: %s", i, input).doesNotThrowAnyException();
    }
  }

  @Test
  void equalBytesHaveEqualHashes() {
    assertThat(loaded(POOL).contentHash()).isEqualTo(loaded(POOL).contentHash()).hasSize(64);
    assertThat(loaded(POOL + "\n").contentHash()).isNotEqualTo(loaded(POOL).contentHash());
  }

  private static String resource(String name) throws IOException {
    try (var in = ConfigLoaderTest.class.getResourceAsStream(name)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
