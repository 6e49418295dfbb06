// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.server.config.ConfigEvent.ReloadRejected;
import io.kvoy.server.config.ConfigEvent.Reloaded;
import io.kvoy.server.config.ConfigLoader.FileCheck;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ConfigWatcherTest {
  private static final Duration SETTLE = Duration.ofMillis(200);

  @TempDir Path folder;
  private Path file;
  private long nowNanos;
  private final List<ConfigEvent> events = new ArrayList<>();

  @BeforeEach
  void createFile() throws IOException {
    file = folder.resolve("kvoy.yaml");
    write(text(1));
  }

  private void write(String text) throws IOException {
    Files.writeString(file, text);
  }

  /** A right file that differs from others by its block size. */
  private static String text(int blockSize) {
    return withConfig("defaults: {blockSize: " + blockSize + "}");
  }

  private static String withConfig(String spec) {
    return """
        apiVersion: inference.kvoy.io/v1alpha1
        kind: ModelPool
        metadata: {name: main}
        spec: {workers: [{address: "10.0.0.7:8000"}]}
        ---
        apiVersion: inference.kvoy.io/v1alpha1
        kind: KvoyConfig
        spec:
        %s
        """
        .formatted(spec.indent(2).stripTrailing());
  }

  private ConfigWatcher watcher(FileCheck files) {
    return switch (ConfigLoader.load(file, files)) {
      case ConfigResult.Loaded(KvoyConfigFile initial) ->
          new ConfigWatcher(
              initial, files, events::add, Duration.ofMillis(1), SETTLE, () -> nowNanos);
      case ConfigResult.Rejected rejected -> throw new AssertionError(rejected.text());
    };
  }

  /** Two looks with the settling time between them. */
  private void lookUntilSettled(ConfigWatcher watcher) {
    watcher.poll();
    nowNanos += SETTLE.toNanos();
    watcher.poll();
  }

  private static int blockSize(ConfigWatcher watcher) {
    return watcher.status().inForce().config().defaults().blockSize();
  }

  @Test
  void HA_05_theLastRightFileStaysInForceAndTheNextRightOneIsTakenAtOnce() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    Pattern stepOf = Pattern.compile("\"step\": (\\d+), \"config\": \"(.*?)\", \"expect_active\"");
    Pattern validOf = Pattern.compile("\"expect_condition\": \"(\\w+)\"");
    int inForce = 0;
    for (String line : resource("ha-config-sequence.jsonl").lines().toList()) {
      Matcher step = stepOf.matcher(line);
      assertThat(step.find()).as(line).isTrue();
      int number = Integer.parseInt(step.group(1));
      // The case's scoring.cacheWeight is mapped to defaults.blockSize: a number of 1 or more.
      String spec =
          step.group(2)
              .replace("scoring: {cacheWeight: ", "defaults: {blockSize: ")
              .replace("\\n", "\n");
      Matcher valid = validOf.matcher(line);
      // Step 4, an unknown key beside a right value, leaves the choice; Kvoy refuses it.
      boolean isRight = valid.find() ? valid.group(1).equals("Valid") : number == 1;
      events.clear();
      write(withConfig(spec));

      lookUntilSettled(watcher);

      if (isRight) {
        inForce = Integer.parseInt(spec.replaceAll("\\D+", ""));
        assertThat(events).as(line).singleElement().isInstanceOf(Reloaded.class);
        assertThat(watcher.status().problems()).isEmpty();
      } else {
        assertThat(events).as(line).singleElement().isInstanceOf(ReloadRejected.class);
        assertThat(watcher.status().problems()).isNotEmpty();
      }
      assertThat(blockSize(watcher)).as(line).isEqualTo(inForce);
    }
    assertThat(watcher.status().reloads()).isEqualTo(2);
    assertThat(watcher.status().rejections()).isEqualTo(3);
    assertThat(inForce).isEqualTo(4);
  }

  @Test
  void HA_05_aFileWithOneWrongDocumentIsNotTakenInPart() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    write(text(64) + "---\nkind: ModelPool\n");

    lookUntilSettled(watcher);

    assertThat(blockSize(watcher)).isEqualTo(1);
  }

  @Test
  void aWrongFileIsReportedOnceHoweverOftenItIsSeen() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    write("spec: [");

    for (int i = 0; i < 10; i++) {
      lookUntilSettled(watcher);
    }

    assertThat(events).hasSize(1);
    assertThat(watcher.status().rejections()).isEqualTo(1);
  }

  @Test
  void aFileThatIsStillBeingWrittenIsNotJudged() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    String whole = text(2);
    for (int length = whole.length() - 5; length <= whole.length(); length++) {
      write(whole.substring(0, length));
      watcher.poll();
      nowNanos += SETTLE.toNanos() - 1;
    }
    assertThat(events).isEmpty();

    nowNanos += 1;
    watcher.poll();

    assertThat(events).singleElement().isInstanceOf(Reloaded.class);
    assertThat(blockSize(watcher)).isEqualTo(2);
  }

  @Test
  void aSymlinkSwapAsKubernetesDoesItIsSeen() throws IOException {
    Path first = Files.createDirectory(folder.resolve("..data_1"));
    Path second = Files.createDirectory(folder.resolve("..data_2"));
    Files.writeString(first.resolve("kvoy.yaml"), text(1));
    Files.writeString(second.resolve("kvoy.yaml"), text(7));
    Path data = Files.createSymbolicLink(folder.resolve("..data"), first);
    Files.delete(file);
    Files.createSymbolicLink(file, data.getFileName().resolve("kvoy.yaml"));
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);

    Path swap = Files.createSymbolicLink(folder.resolve("..data_tmp"), second);
    Files.move(swap, data, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    lookUntilSettled(watcher);

    assertThat(blockSize(watcher)).isEqualTo(7);
  }

  @Test
  void aChangeOfEqualLengthAndTimeIsSeen() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    var before = Files.getLastModifiedTime(file);
    write(text(2));
    Files.setLastModifiedTime(file, before);

    lookUntilSettled(watcher);

    assertThat(blockSize(watcher)).isEqualTo(2);
  }

  @Test
  void aDeletedFileChangesNothingAndItsReturnIsNoReload() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    Files.delete(file);
    lookUntilSettled(watcher);

    assertThat(events).singleElement().isInstanceOf(ReloadRejected.class);
    assertThat(blockSize(watcher)).isEqualTo(1);

    write(text(1));
    lookUntilSettled(watcher);

    assertThat(events).hasSize(1);
    assertThat(watcher.status().problems()).isEmpty();
    assertThat(watcher.status().reloads()).isZero();
  }

  @Test
  void aTokenizerThatComesAfterTheFileThatNamesItIsNoticed() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    write(text(2).replace("spec: {workers", "spec: {tokenizer: qwen3, workers"));
    lookUntilSettled(watcher);
    assertThat(events).singleElement().isInstanceOf(ReloadRejected.class);

    Files.createDirectory(folder.resolve("qwen3"));
    Files.writeString(folder.resolve("qwen3/tokenizer.json"), "{}");
    watcher.poll();

    assertThat(events).last().isInstanceOf(Reloaded.class);
    assertThat(watcher.status().problems()).isEmpty();
  }

  @Test
  void changesThatNeedARestartAreNamed() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    write(withConfig("listen: {extProc: 7000}\ntokenizers: {threads: 2}\nlimits: {maxStreams: 5}"));

    lookUntilSettled(watcher);

    assertThat(events)
        .singleElement()
        .isInstanceOfSatisfying(
            Reloaded.class,
            reloaded ->
                assertThat(reloaded.waitingForRestart())
                    .containsExactly(
                        "KvoyConfig.spec.listen.extProc",
                        "KvoyConfig.spec.defaults.blockSize",
                        "KvoyConfig.spec.tokenizers.threads"));
  }

  @Test
  void aListenerThatFailsDoesNotUndoTheReload() throws IOException {
    KvoyConfigFile initial = watcher(FileCheck.REQUIRE).status().inForce();
    ConfigWatcher watcher =
        new ConfigWatcher(
            initial,
            FileCheck.REQUIRE,
            _ -> {
              throw new IllegalStateException("a bug of the listener");
            },
            Duration.ofMillis(1),
            SETTLE,
            () -> nowNanos);
    write(text(2));
    lookUntilSettled(watcher);
    write(text(3));
    lookUntilSettled(watcher);

    assertThat(blockSize(watcher)).isEqualTo(3);
  }

  @Test
  void ageCountsFromTheLastReload() throws IOException {
    ConfigWatcher watcher = watcher(FileCheck.REQUIRE);
    nowNanos += Duration.ofSeconds(90).toNanos();
    assertThat(watcher.ageSeconds()).isEqualTo(90);

    write(text(2));
    lookUntilSettled(watcher);

    assertThat(watcher.ageSeconds()).isZero();
  }

  @Test
  void theThreadLooksUntilItIsClosed() throws Exception {
    CountDownLatch reloaded = new CountDownLatch(1);
    KvoyConfigFile initial = watcher(FileCheck.REQUIRE).status().inForce();
    try (ConfigWatcher watcher =
        new ConfigWatcher(
            initial,
            FileCheck.REQUIRE,
            _ -> reloaded.countDown(),
            Duration.ofMillis(1),
            Duration.ZERO,
            System::nanoTime)) {
      watcher.start();
      write(text(2));

      assertThat(reloaded.await(10, TimeUnit.SECONDS)).isTrue();
    }
    assertThat(Thread.getAllStackTraces().keySet())
        .extracting(Thread::getName)
        .doesNotContain("kvoy-config-watcher");
  }

  private static String resource(String name) throws IOException {
    try (var in = ConfigWatcherTest.class.getResourceAsStream(name)) {
      return new String(Objects.requireNonNull(in, name).readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
