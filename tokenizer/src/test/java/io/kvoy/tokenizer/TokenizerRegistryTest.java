// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.TokenizerLoader.Load;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.files.FolderProblem;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

class TokenizerRegistryTest {

  private static final Prompt PROMPT = new Prompt.Texts(List.of("a"), true);
  private static final TokenizerRegistry.Timing TIMING =
      new TokenizerRegistry.Timing(
          Duration.ofSeconds(1),
          Duration.ofSeconds(60),
          Duration.ofMinutes(10),
          Duration.ofSeconds(30));

  @TempDir Path folder;
  private Instant now = Instant.parse("2026-11-30T00:00:00Z");
  private final List<Path> loads = new ArrayList<>();
  private final List<String> heard = new ArrayList<>();
  private Load next = loaded(1);
  private final TokenizerRegistry registry =
      new TokenizerRegistry(
          path -> {
            loads.add(path);
            return next;
          },
          () -> now,
          TIMING,
          new TokenizerListener() {
            @Override
            public void loaded(SortedSet<String> models, String encoder) {
              heard.add("loaded " + models);
            }

            @Override
            public void failed(
                SortedSet<String> models, FolderProblem problem, boolean earlierGoesOn) {
              heard.add("failed " + models + (earlierGoesOn ? " earlier goes on" : ""));
            }
          });

  private final ListAppender<ILoggingEvent> log = new ListAppender<>();
  private final Logger logger = (Logger) LoggerFactory.getLogger(TokenizerRegistry.class);

  @BeforeEach
  void listen() {
    log.start();
    logger.addAppender(log);
  }

  @AfterEach
  void stopListening() {
    logger.detachAppender(log);
  }

  @BeforeEach
  void writeTokenizer() throws IOException {
    Files.writeString(folder.resolve("tokenizer.json"), "{}");
  }

  private static Load loaded(int id) {
    return new Load.Loaded(_ -> new Tokenization.Estimated(id, "test"), "encoder-" + id);
  }

  private Load failed(String what) {
    return new Load.Failed(new FolderProblem(FolderProblem.Kind.ABSENT, folder, what, "bring it"));
  }

  @Test
  void anUnknownModelHasNoTokenizer() {
    assertThat(registry.tokenize("m", PROMPT))
        .isEqualTo(new Tokenization.Unavailable("no_tokenizer"));
  }

  @Test
  void aModelIsLoadingUntilItsTurnThenReady() {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    assertThat(registry.statuses()).containsEntry("m", new TokenizerStatus.Loading(folder));
    assertThat(registry.tokenize("m", PROMPT))
        .isEqualTo(new Tokenization.Unavailable("tokenizer_loading"));

    registry.doWork();

    assertThat(registry.statuses().get("m")).isInstanceOf(TokenizerStatus.Ready.class);
    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
  }

  @Test
  void modelsThatShareAFolderShareItsTokenizer() {
    registry.update(
        Map.of(
            "m",
            TokenizerSource.of(folder),
            "alias",
            TokenizerSource.of(folder.resolve("../" + folder.getFileName()))));

    registry.doWork();

    assertThat(loads).hasSize(1);
    assertThat(registry.tokenize("alias", PROMPT)).isEqualTo(registry.tokenize("m", PROMPT));
  }

  @Test
  void TOK_01_absentFilesAreTriedAgainWithBackOffAndTheModelIsMarked() {
    next = failed("no tokenizer.json");
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    var pauses = new ArrayList<Long>();
    for (int i = 0; i < 8; i++) {
      Duration pause = registry.doWork();
      pauses.add(pause.toSeconds());
      now = now.plusSeconds(40);
      registry.doWork();
      now = now.plusSeconds(40);
    }

    assertThat(registry.tokenize("m", PROMPT))
        .isEqualTo(new Tokenization.Unavailable("tokenizer_failed"));
    assertThat(registry.statuses().get("m")).isInstanceOf(TokenizerStatus.Failed.class);
    assertThat(pauses.getFirst()).isEqualTo(1);
    assertThat(loads.size()).isBetween(8, 14);
  }

  @Test
  void TOK_01_aFolderThatStaysBrokenIsLoggedOncePerPeriod() {
    next = failed("no tokenizer.json");
    registry.update(Map.of("m", TokenizerSource.of(folder)));

    for (int second = 0; second < 1500; second++) {
      registry.doWork();
      now = now.plusSeconds(1);
    }

    assertThat(warnings())
        .hasSize(3)
        .allMatch(line -> line.contains("no tokenizer.json; bring it"));
  }

  @Test
  void TOK_01_anotherProblemIsLoggedAtOnce() {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    next = failed("no tokenizer.json");
    registry.doWork();
    next = failed("half a file");
    now = now.plusSeconds(1);

    registry.doWork();

    assertThat(warnings()).hasSize(2);
  }

  private List<String> warnings() {
    return log.list.stream()
        .filter(event -> event.getLevel() == Level.WARN)
        .map(ILoggingEvent::getFormattedMessage)
        .toList();
  }

  @Test
  void TOK_01_pausesDoubleUpToTheLongest() {
    assertThat(List.of(1, 2, 3, 6, 7, 8, 1000))
        .extracting(failures -> TIMING.retryAfter(failures).toSeconds())
        .containsExactly(1L, 2L, 4L, 32L, 60L, 60L, 60L);
  }

  @Test
  void aLaterTryThatGoesWellMakesTheModelReady() {
    next = failed("no tokenizer.json");
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();
    next = loaded(2);

    registry.doWork();
    assertThat(loads).as("not before its time").hasSize(1);
    now = now.plusSeconds(1);
    registry.doWork();

    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(2, "test"));
  }

  @Test
  void changedFilesAreLoadedAgainAndUnchangedOnesAreNot() throws IOException {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();
    now = now.plusSeconds(30);
    registry.doWork();
    assertThat(loads).hasSize(1);

    Files.writeString(folder.resolve("chat_template.jinja"), "x");
    next = loaded(2);
    now = now.plusSeconds(30);
    registry.doWork();

    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(2, "test"));
  }

  @Test
  void aKubernetesVolumeIsSwappedWithoutAPauseAndBadFilesKeepTheLastGood() throws IOException {
    // The layout of a mounted ConfigMap: files link to ..data/file, ..data links to a folder of a
    // time, and an update only turns ..data.
    Path volume = Files.createDirectory(folder.resolve("volume"));
    FileTime sameTime = FileTime.from(now);
    for (String version : List.of("..v1", "..v2", "..v3")) {
      Path at = Files.createDirectory(volume.resolve(version));
      Files.setLastModifiedTime(
          Files.writeString(at.resolve("tokenizer.json"), "{\"v\":" + version.length() + "}"),
          sameTime);
    }
    Path data = volume.resolve("..data");
    Files.createSymbolicLink(data, Path.of("..v1"));
    Files.createSymbolicLink(volume.resolve("tokenizer.json"), Path.of("..data/tokenizer.json"));
    registry.update(Map.of("m", TokenizerSource.of(volume)));
    registry.doWork();
    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));

    turn(data, "..v2");
    next = loaded(2);
    now = now.plusSeconds(30);
    registry.doWork();
    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(2, "test"));

    turn(data, "..v3");
    next = failed("is not valid JSON");
    now = now.plusSeconds(30);
    registry.doWork();
    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(2, "test"));
    assertThat(heard).containsExactly("loaded [m]", "loaded [m]", "failed [m] earlier goes on");
  }

  private static void turn(Path link, String target) throws IOException {
    Path fresh = link.resolveSibling("..data_tmp");
    Files.createSymbolicLink(fresh, Path.of(target));
    Files.move(fresh, link, StandardCopyOption.ATOMIC_MOVE);
  }

  @Test
  void anotherTemplateIsAnotherSourceAndTheEarlierTokenizerAnswersUntilItIsLoaded() {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();

    registry.update(
        Map.of(
            "m",
            new TokenizerSource(
                folder, Optional.of(folder.resolve("other.jinja")), ChatTemplateOptions.DEFAULTS)));

    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
    assertThat(registry.statuses().get("m")).isInstanceOf(TokenizerStatus.Ready.class);
    registry.doWork();
    // The loader of this test knows no templates.
    assertThat(heard).containsExactly("loaded [m]", "failed [m] earlier goes on");
    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
  }

  @Test
  void idsToCompareAreThereAlsoDuringAMismatch() {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();
    registry.setMatchesWorker("m", false);

    assertThat(registry.tokenize("m", PROMPT)).isInstanceOf(Tokenization.Unavailable.class);
    assertThat(registry.tokenizeToCompare("m", PROMPT))
        .isEqualTo(new Tokenization.Estimated(1, "test"));
  }

  @Test
  void aChangeThatCannotBeLoadedLeavesTheEarlierTokenizerAndSaysSo() throws IOException {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();
    Files.writeString(folder.resolve("tokenizer.json"), "{ half");
    next = failed("half a file");
    now = now.plusSeconds(30);

    registry.doWork();

    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
    assertThat(registry.statuses().get("m"))
        .isInstanceOfSatisfying(
            TokenizerStatus.Ready.class, ready -> assertThat(ready.lastProblem()).isPresent());
  }

  @Test
  void updatesKeepTokenizersOfFoldersThatStay() {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();

    registry.update(Map.of("other", TokenizerSource.of(folder)));
    registry.doWork();

    assertThat(loads).hasSize(1);
    assertThat(registry.tokenize("other", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
    assertThat(registry.tokenize("m", PROMPT))
        .isEqualTo(new Tokenization.Unavailable("no_tokenizer"));
  }

  @Test
  void TOK_05_aMismatchWithTheWorkerStopsIdsUntilItIsTakenBack() {
    registry.update(Map.of("m", TokenizerSource.of(folder)));
    registry.doWork();

    registry.setMatchesWorker("m", false);
    assertThat(registry.tokenize("m", PROMPT))
        .isEqualTo(new Tokenization.Unavailable("tokenizer_mismatch"));
    assertThat(registry.statuses()).containsEntry("m", new TokenizerStatus.Mismatch(folder));

    registry.setMatchesWorker("m", true);
    assertThat(registry.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
  }

  @Test
  void aLoaderThatThrowsFailsOneFolderOnly() {
    var throwing =
        new TokenizerRegistry(
            path -> {
              if (path.endsWith("bad")) {
                throw new IllegalStateException("bug");
              }
              return loaded(1);
            },
            () -> now,
            TIMING);
    throwing.update(
        Map.of("m", TokenizerSource.of(folder), "n", TokenizerSource.of(folder.resolve("bad"))));

    throwing.doWork();

    assertThat(throwing.tokenize("m", PROMPT)).isEqualTo(new Tokenization.Estimated(1, "test"));
    assertThat(throwing.statuses().get("n"))
        .isInstanceOfSatisfying(
            TokenizerStatus.Failed.class,
            status -> assertThat(status.problem().what()).contains("IllegalStateException"));
  }

  @Test
  void theLoaderThreadPicksUpAnUpdateAtOnce() throws InterruptedException {
    var loadedOnce = new CountDownLatch(1);
    try (var background =
        new TokenizerRegistry(
            _ -> {
              loadedOnce.countDown();
              return loaded(1);
            },
            () -> now,
            TIMING)) {
      background.start();
      background.update(Map.of("m", TokenizerSource.of(folder)));

      assertThat(loadedOnce.await(20, TimeUnit.SECONDS)).isTrue();
    }
  }
}
