// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.tokenizer.LocalTokenizers;
import io.kvoy.tokenizer.bpe.BpeFileRead;
import io.kvoy.tokenizer.bpe.BpeFileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Encodes for a long time in a process of its own, so that what it takes of memory is the
 * encoder's. Prints a line {@code encodes resident-KiB tokens} twenty times on its way.
 */
final class EncodeSoak {
  /** Characters of a text, all of one byte. */
  static final int TEXT_CHARS = 20_000;

  private static final int THREADS = 2;
  private static final int REPORTS = 20;

  private static final List<String> WORDS =
      List.of(
          "the", "of", "and", "window", "paper", "in", "table", "music", "letter", "market", "is",
          "bridge", "forest", "that", "summer", "doctor", "island", "it", "for", "morning",
          "people", "number", "water", "with", "green", "house", "light", "on", "world", "point");

  private static final List<String> ENDINGS = List.of("", "", "", "s", "er", "ing", ",", ".");

  private EncodeSoak() {}

  /**
   * @param args {@code native} or {@code java}, the tokenizer's family, the number of encodes
   */
  public static void main(String[] args) throws InterruptedException {
    TextEncoder encoder =
        args[0].equals("native")
            ? LocalTokenizers.djl(args[1])
            : ((BpeFileRead.Supported) BpeFileReader.read(LocalTokenizers.folder(args[1])))
                .encoder();
    long share = Long.parseLong(args[2]) / THREADS / REPORTS;
    AtomicLong encodes = new AtomicLong();
    AtomicLong tokens = new AtomicLong();
    // The same threads to the end: each new one would add its own share of the allocator's memory.
    CyclicBarrier report =
        new CyclicBarrier(
            THREADS, () -> System.out.println(encodes + " " + residentKib() + " " + tokens));
    Thread[] threads = new Thread[THREADS];
    for (int t = 0; t < THREADS; t++) {
      Random random = new Random(t);
      threads[t] =
          Thread.ofPlatform()
              .start(
                  () -> {
                    for (int r = 0; r < REPORTS; r++) {
                      for (long i = 0; i < share; i++) {
                        tokens.addAndGet(
                            Objects.requireNonNull(encoder.encode(text(random), i % 2 == 0))
                                .length);
                      }
                      encodes.addAndGet(share);
                      await(report);
                    }
                  });
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private static void await(CyclicBarrier barrier) {
    try {
      barrier.await();
    } catch (InterruptedException | BrokenBarrierException e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * No two are alike: words that come again and again, as in any language, and between them new
   * ones, numbers, and now and then a run without a space.
   */
  static String text(Random random) {
    StringBuilder text = new StringBuilder(TEXT_CHARS + 200);
    while (text.length() < TEXT_CHARS) {
      switch (random.nextInt(40)) {
        case 0 -> text.append(random.nextLong());
        case 1 -> text.append("x".repeat(random.nextInt(150)));
        case 2 -> text.append("{\"key\": [").append(random.nextInt(1000)).append("]}\n");
        case 3 -> text.append(word(random));
        default ->
            text.append(WORDS.get(random.nextInt(WORDS.size())))
                .append(ENDINGS.get(random.nextInt(ENDINGS.size())));
      }
      text.append(' ');
    }
    text.setLength(TEXT_CHARS);
    return text.toString();
  }

  private static String word(Random random) {
    StringBuilder word = new StringBuilder();
    for (int letters = 1 + random.nextInt(9); letters > 0; letters--) {
      word.append((char) ('a' + random.nextInt(26)));
    }
    return word.toString();
  }

  private static long residentKib() {
    try {
      return Files.readAllLines(Path.of("/proc/self/status")).stream()
          .filter(line -> line.startsWith("VmRSS:"))
          .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
          .findFirst()
          .orElseThrow();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
