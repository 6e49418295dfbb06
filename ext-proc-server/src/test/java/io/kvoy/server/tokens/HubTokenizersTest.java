// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvoy.server.config.ModelPool.HubTokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.LoggerFactory;

class HubTokenizersTest {
  private static final HubTokenizer MAIN = new HubTokenizer("owner/model", "main");
  private static final String SECRET = "hf_verySecretToken";

  @TempDir Path folder;
  private FakeHub hub;
  private Instant now = Instant.parse("2026-11-30T00:00:00Z");
  private Optional<String> token = Optional.empty();
  private final List<String> results = new ArrayList<>();
  private int changes;
  private final ListAppender<ILoggingEvent> log = new ListAppender<>();
  private final Logger logger = (Logger) LoggerFactory.getLogger(HubTokenizers.class);

  @BeforeEach
  void start() throws IOException {
    hub = new FakeHub();
    log.start();
    logger.addAppender(log);
  }

  @AfterEach
  void stop() {
    hub.close();
    logger.detachAppender(log);
  }

  private HubTokenizers tokenizers(HubTokenizer... wanted) {
    HubTokenizers made =
        new HubTokenizers(
            new HubSettings(
                hub.base(), folder, () -> token, Duration.ofSeconds(2), Duration.ofHours(1)),
            () -> now,
            results::add,
            Duration.ofMinutes(1),
            () -> changes++);
    made.update(Set.of(wanted));
    return made;
  }

  private Path snapshot(String commit) {
    return folder.resolve("models--owner--model/snapshots").resolve(commit);
  }

  private static List<String> filesIn(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      return files
          .filter(Files::isRegularFile)
          .map(file -> folder.relativize(file).toString())
          .sorted()
          .toList();
    }
  }

  @Test
  void onlyTheFilesOfATokenizerAreFetchedAndTokenizerJsonComesLast() throws Exception {
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      assertThat(tokenizers.folder(MAIN)).isEmpty();

      tokenizers.doWork();

      assertThat(tokenizers.folder(MAIN)).contains(snapshot(FakeHub.COMMIT_1));
      assertThat(filesIn(snapshot(FakeHub.COMMIT_1)))
          .containsExactly(
              "additional_chat_templates/rag.jinja",
              "config.json",
              "tokenizer.json",
              "tokenizer_config.json");
      assertThat(snapshot(FakeHub.COMMIT_1).resolve("tokenizer.json"))
          .hasBinaryContent(hub.files.get("tokenizer.json"));
      assertThat(hub.seen.getLast()).startsWith("store /tokenizer.json");
      assertThat(results).containsExactly("fetched");
      assertThat(changes).isEqualTo(1);
    }
  }

  @Test
  void whatIsInTheCacheServesAtOnceAndWithoutAHub() throws Exception {
    try (HubTokenizers first = tokenizers(MAIN)) {
      first.doWork();
    }
    hub.close();

    try (HubTokenizers offline = tokenizers(MAIN)) {
      assertThat(offline.folder(MAIN)).contains(snapshot(FakeHub.COMMIT_1));
      offline.doWork();
      assertThat(offline.folder(MAIN)).contains(snapshot(FakeHub.COMMIT_1));
      assertThat(offline.state(MAIN))
          .isInstanceOfSatisfying(
              HubTokenizers.State.Present.class,
              present -> assertThat(present.lastProblem()).contains("cannot be reached"));
    }
  }

  @Test
  void aCommitInTheCacheIsNeverAskedAboutAgain() throws Exception {
    HubTokenizer fixed = new HubTokenizer("owner/model", FakeHub.COMMIT_1);
    try (HubTokenizers first = tokenizers(fixed)) {
      first.doWork();
    }
    hub.seen.clear();

    try (HubTokenizers second = tokenizers(fixed)) {
      second.doWork();
      now = now.plus(Duration.ofDays(30));
      second.doWork();
      assertThat(second.folder(fixed)).isPresent();
    }
    assertThat(hub.seen).isEmpty();
  }

  /** Another client of the same cache may have wanted a single file. */
  @Test
  void whatAnotherClientFetchedInPartIsMadeWhole() throws Exception {
    HubTokenizer fixed = new HubTokenizer("owner/model", FakeHub.COMMIT_1);
    try (HubTokenizers first = tokenizers(fixed)) {
      first.doWork();
    }
    Path folder = snapshot(FakeHub.COMMIT_1);
    Files.delete(folder.resolve("tokenizer_config.json"));
    Files.delete(folder.resolve("../../.kvoy-" + FakeHub.COMMIT_1));

    try (HubTokenizers second = tokenizers(fixed)) {
      assertThat(second.folder(fixed)).as("serves meanwhile").contains(folder);
      second.doWork();
      assertThat(folder.resolve("tokenizer_config.json")).exists();
      hub.seen.clear();
      second.doWork();
      assertThat(hub.seen).isEmpty();
    }
  }

  @Test
  void aBranchThatMovedIsFetchedAnewAndTheEarlierFilesServeMeanwhile() throws Exception {
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();
      hub.commit = FakeHub.COMMIT_2;
      now = now.plus(Duration.ofMinutes(59));
      tokenizers.doWork();
      assertThat(tokenizers.folder(MAIN)).contains(snapshot(FakeHub.COMMIT_1));

      now = now.plus(Duration.ofMinutes(1));
      tokenizers.doWork();

      assertThat(tokenizers.folder(MAIN)).contains(snapshot(FakeHub.COMMIT_2));
      assertThat(changes).isEqualTo(2);
    }
  }

  @Test
  void theTokenIsShownToTheHubAndNeverToTheHostItRedirectsTo() throws Exception {
    hub.token = SECRET;
    token = Optional.of(SECRET);
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();

      assertThat(tokenizers.folder(MAIN)).isPresent();
      assertThat(hub.seen)
          .filteredOn(line -> line.startsWith("hub"))
          .allMatch(line -> line.contains("Bearer " + SECRET));
      assertThat(hub.seen)
          .filteredOn(line -> line.startsWith("store"))
          .isNotEmpty()
          .noneMatch(line -> line.contains("Bearer"));
    }
  }

  @Test
  void aWrongTokenIsToldWithoutTheToken() throws Exception {
    hub.token = "another";
    token = Optional.of(SECRET);
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();

      assertThat(results).containsExactly("unauthorized");
      assertThat(tokenizers.state(MAIN).toString()).contains("401").doesNotContain(SECRET);
      assertThat(log.list.toString() + log.list.getFirst().getKeyValuePairs())
          .contains("hub_tokenizer_unavailable")
          .doesNotContain(SECRET);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "401, unauthorized",
    "403, forbidden",
    "404, not_found",
    "429, rate_limited",
    "503, unavailable"
  })
  void TOK_01_aRefusalIsCountedByItsReasonAndTriedAgainWithBackOff(int status, String reason)
      throws Exception {
    hub.refusal = status;
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      Duration pause = tokenizers.doWork();

      assertThat(results).containsExactly(reason);
      assertThat(pause).as("the hub asked for seven seconds").isEqualTo(Duration.ofSeconds(7));
      tokenizers.doWork();
      assertThat(results).as("not before its time").hasSize(1);
      hub.refusal = 0;
      now = now.plusSeconds(7);
      tokenizers.doWork();
      assertThat(tokenizers.folder(MAIN)).isPresent();
    }
  }

  @Test
  void TOK_01_pausesDoubleUpToTheLongest() {
    assertThat(List.of(1, 2, 3, 9, 10, 1000))
        .extracting(n -> HubTokenizers.pause(n, Duration.ZERO).toSeconds())
        .containsExactly(1L, 2L, 4L, 256L, 300L, 300L);
    assertThat(HubTokenizers.pause(1, Duration.ofDays(9))).isEqualTo(Duration.ofHours(1));
  }

  @Test
  void aBrokenDownloadGoesOnWhereItStopped() throws Exception {
    hub.breakAfter = 60_000;
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();
      assertThat(results).containsExactly("unavailable");
      assertThat(tokenizers.folder(MAIN)).as("half a file serves nobody").isEmpty();

      hub.breakAfter = -1;
      now = now.plusSeconds(1);
      tokenizers.doWork();

      assertThat(tokenizers.folder(MAIN)).isPresent();
      assertThat(hub.seen.getLast()).matches("store /tokenizer.json - bytes=[1-9][0-9]*-");
      assertThat(snapshot(FakeHub.COMMIT_1).resolve("tokenizer.json"))
          .hasBinaryContent(hub.files.get("tokenizer.json"));
    }
  }

  @Test
  void aStoreThatKnowsNoRangesSendsTheWholeFileAgain() throws Exception {
    hub.breakAfter = 60_000;
    hub.ranges = false;
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();
      hub.breakAfter = -1;
      now = now.plusSeconds(1);
      tokenizers.doWork();

      assertThat(snapshot(FakeHub.COMMIT_1).resolve("tokenizer.json"))
          .hasBinaryContent(hub.files.get("tokenizer.json"));
    }
  }

  @Test
  void otherBytesThanTheDigestSaysAreThrownAway() throws Exception {
    hub.corrupt = true;
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();

      assertThat(results).containsExactly("corrupt");
      assertThat(filesIn(snapshot(FakeHub.COMMIT_1)))
          .noneMatch(name -> name.contains("tokenizer.json"));
      hub.corrupt = false;
      now = now.plusSeconds(1);
      tokenizers.doWork();
      assertThat(tokenizers.folder(MAIN)).isPresent();
    }
  }

  @Test
  void aFileWithoutBoundIsCutOff() throws Exception {
    hub.put("config.json", " ".repeat((8 << 20) + 1));
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();

      assertThat(results).containsExactly("too_large");
    }
  }

  @Test
  void aRepositoryWithoutTokenizerJsonSaysSo() throws Exception {
    hub.files.remove("tokenizer.json");
    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      tokenizers.doWork();

      assertThat(results).containsExactly("no_tokenizer");
      assertThat(tokenizers.state(MAIN).toString()).contains("has no tokenizer.json");
    }
  }

  @Test
  void aFolderFilledByTheHubsOwnClientServesWithoutAHub() throws Exception {
    hub.close();
    Path repository = folder.resolve("models--owner--model");
    Path blob = repository.resolve("blobs/abc");
    Files.createDirectories(blob.getParent());
    Files.writeString(blob, "{}");
    Path snapshot = Files.createDirectories(snapshot(FakeHub.COMMIT_2));
    Files.createSymbolicLink(snapshot.resolve("tokenizer.json"), Path.of("../../blobs/abc"));
    Files.createDirectories(repository.resolve("refs"));
    Files.writeString(repository.resolve("refs/main"), FakeHub.COMMIT_2);

    try (HubTokenizers tokenizers = tokenizers(MAIN)) {
      assertThat(tokenizers.folder(MAIN)).contains(snapshot);
    }
  }
}
