// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Two real workers start, answer, tell what they had cached, and leave no process behind. */
class VllmProcessVllmIT {
  @Test
  void twoWorkersAnswerCacheAndEnd() throws Exception {
    LocalTools tools = LocalTools.find();
    long leaderA;
    long begun = System.nanoTime();
    try (VllmProcess a = VllmProcess.launch(tools, VllmOptions.tinyQwen3(tools, "worker-a"));
        VllmProcess b = VllmProcess.launch(tools, VllmOptions.tinyQwen3(tools, "worker-b"))) {
      leaderA = a.pid();
      for (VllmProcess worker : List.of(a, b)) {
        worker.awaitHealthy(VllmProcess.START_PATIENCE, System.out::println);
        System.out.printf(
            "%s healthy after %d s%n",
            worker.options().name(), Duration.ofNanos(System.nanoTime() - begun).toSeconds());
      }

      assertThat(livingInSession(leaderA)).as("API server, engine, executor").hasSizeGreaterThan(1);

      HttpResponse<String> cold = chat(a);
      HttpResponse<String> warm = chat(a);
      HttpResponse<String> elsewhere = chat(b);

      assertThat(cold.statusCode()).as(cold.body()).isEqualTo(200);
      assertThat(cold.body())
          .contains("\"model\":\"tiny-qwen3\"")
          .doesNotContain("\"cached_tokens\":96");
      assertThat(warm.body())
          .as("three whole blocks of 32 of the repeated prompt")
          .contains("\"cached_tokens\":96");
      assertThat(elsewhere.body())
          .as("each worker has its own cache")
          .doesNotContain("\"cached_tokens\":96");
    }
    // A killed process takes a moment to go.
    await()
        .atMost(Duration.ofSeconds(10))
        .untilAsserted(
            () -> assertThat(livingInSession(leaderA)).as("what is left of worker-a").isEmpty());
  }

  /** Names of processes whose session is {@code session} and that are no zombies. */
  private static List<String> livingInSession(long session) throws IOException {
    List<String> living = new ArrayList<>();
    try (DirectoryStream<Path> processes = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
      for (Path process : processes) {
        String stat;
        try {
          stat = Files.readString(process.resolve("stat"));
        } catch (IOException ended) {
          continue;
        }
        // pid (name) state ppid pgrp session; the name may hold spaces and parentheses.
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", 5);
        if (Long.parseLong(fields[3]) == session && !fields[0].equals("Z")) {
          living.add(stat);
        }
      }
    }
    return living;
  }

  private static HttpResponse<String> chat(VllmProcess worker) throws Exception {
    String body =
        """
        {"model":"tiny-qwen3","max_tokens":4,"temperature":0,
         "messages":[{"role":"user","content":"%s"}]}
        """
            .formatted("one two three four five ".repeat(20).strip());
    HttpRequest request =
        HttpRequest.newBuilder(
                URI.create("http://" + worker.options().listen() + "/v1/chat/completions"))
            .header("content-type", "application/json")
            .timeout(Duration.ofMinutes(2))
            .POST(BodyPublishers.ofString(body))
            .build();
    try (HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
      HttpResponse<String> answer = client.send(request, BodyHandlers.ofString());
      System.out.println(worker.options().name() + " " + answer.statusCode() + " " + answer.body());
      return answer;
    }
  }
}
