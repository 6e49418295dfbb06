// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Locale;
import java.util.stream.Stream;

/**
 * CPU time of a process so far, from Linux's {@code /proc}, in ticks of 10 ms.
 *
 * @param totalNanos user and system time of all threads, ended ones included
 * @param compilerNanos of the JVM's compiler threads alive now: what goes away once all is compiled
 * @param collectorNanos of the JVM's garbage collector and VM threads alive now
 */
record ProcessCpu(long totalNanos, long compilerNanos, long collectorNanos) {
  static final ProcessCpu NONE = new ProcessCpu(0, 0, 0);

  /** Linux's USER_HZ, the same on every architecture that a JVM runs on. */
  private static final long NANOS_PER_TICK = 10_000_000;

  /** The time of a running process. */
  static ProcessCpu of(long pid) throws IOException {
    Path proc = Path.of("/proc", Long.toString(pid));
    long compiler = 0;
    long collector = 0;
    try (Stream<Path> tasks = Files.list(proc.resolve("task"))) {
      for (Path task : (Iterable<Path>) tasks::iterator) {
        Stat stat;
        try {
          stat = Stat.read(task.resolve("stat"));
        } catch (NoSuchFileException endedMeanwhile) {
          continue;
        }
        String name = stat.name.toLowerCase(Locale.ROOT);
        if (name.startsWith("c1 ") || name.startsWith("c2 ")) {
          compiler += stat.nanos;
        } else if (name.startsWith("gc ")
            || name.startsWith("g1 ")
            || name.startsWith("z")
            || name.startsWith("runtimeworker")
            || name.equals("vm thread")) {
          collector += stat.nanos;
        }
      }
    }
    return new ProcessCpu(Stat.read(proc.resolve("stat")).nanos, compiler, collector);
  }

  /** Resident memory in MiB. */
  static long residentMiB(long pid) throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc", Long.toString(pid), "status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("\\D", "")) >> 10;
      }
    }
    return 0;
  }

  /** What was used since an earlier look. */
  ProcessCpu since(ProcessCpu earlier) {
    return new ProcessCpu(
        totalNanos - earlier.totalNanos,
        compilerNanos - earlier.compilerNanos,
        collectorNanos - earlier.collectorNanos);
  }

  private record Stat(String name, long nanos) {
    /** The name may hold blanks and brackets; the numbers begin after the last bracket. */
    static Stat read(Path file) throws IOException {
      String line = Files.readString(file);
      int end = line.lastIndexOf(')');
      String[] fields = line.substring(end + 2).split(" ", -1);
      long ticks = Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
      return new Stat(line.substring(line.indexOf('(') + 1, end), ticks * NANOS_PER_TICK);
    }
  }
}
