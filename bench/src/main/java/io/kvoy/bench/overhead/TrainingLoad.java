// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;

/** Mixed traffic for whoever wants a server to have seen some, and what a process used. */
public final class TrainingLoad {
  private static final int CLIENTS = 4;

  private TrainingLoad() {}

  /** Prompts of all kinds: cold, in conversations, streamed. */
  public static void run(InetSocketAddress door, Duration time) throws IOException {
    Prompts prompts =
        new Prompts("The quick brown fox jumps over the lazy dog. ".repeat(2_000), 4.5);
    List<Prompts.Source> sources =
        List.of(
            prompts.cold(200, false, ""),
            prompts.multiTurn(2_000, CLIENTS, false, ""),
            prompts.cold(8_000, false, ""),
            prompts.cold(200, true, "stream chunks=20 gap=1"));
    for (Prompts.Source source : sources) {
      HttpLoad.Result result =
          HttpLoad.run(
              door,
              source,
              CLIENTS,
              Duration.ZERO,
              time.dividedBy(sources.size()),
              new HttpLoad.Window() {
                @Override
                public void begins() {}

                @Override
                public void ends() {}
              });
      if (result.done() == 0) {
        throw new IOException("no request was answered: " + result.firstFailure());
      }
    }
  }

  /** CPU time of a process so far. */
  public static long cpuNanos(long pid) throws IOException {
    return ProcessCpu.of(pid).totalNanos();
  }

  /** Its resident memory. */
  public static long residentMiB(long pid) throws IOException {
    return ProcessCpu.residentMiB(pid);
  }
}
