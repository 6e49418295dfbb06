// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import com.sun.management.HotSpotDiagnosticMXBean;
import com.sun.management.VMOption;
import java.lang.management.ManagementFactory;

/**
 * Keeps ZGC from using all memory that it may use. It collects when that is cheapest, which is when
 * the heap is full, so a server with half a machine's memory for a limit takes half of the machine
 * for garbage, and every object it makes is in memory that no CPU cache has. With a goal it
 * collects sooner; the limit stays what it was, for whoever needs more.
 */
final class HeapGoal {
  private static final String OPTION = "SoftMaxHeapSize";
  private static final int SHARE = 8;
  private static final long LEAST = 1L << 30;

  private HeapGoal() {}

  /** The goal for a heap of at most that many bytes: an eighth of it, and a gibibyte at least. */
  static long of(long maxBytes) {
    return Math.min(maxBytes, Math.max(LEAST, maxBytes / SHARE));
  }

  /**
   * Sets it, where ZGC collects and nobody has set another.
   *
   * @return bytes, 0 when nothing was set
   */
  static long set() {
    HotSpotDiagnosticMXBean jvm =
        ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
    try {
      boolean isOurs =
          Boolean.parseBoolean(jvm.getVMOption("UseZGC").getValue())
              && !isChosen(jvm.getVMOption(OPTION))
              && !isChosen(jvm.getVMOption("MaxHeapSize"));
      if (!isOurs) {
        return 0;
      }
      long goal = of(Long.parseLong(jvm.getVMOption("MaxHeapSize").getValue()));
      jvm.setVMOption(OPTION, Long.toString(goal));
      return goal;
    } catch (IllegalArgumentException _) {
      // Another JVM, without these options.
      return 0;
    }
  }

  /** By a person, not by the JVM. */
  private static boolean isChosen(VMOption option) {
    return option.getOrigin() != VMOption.Origin.DEFAULT
        && option.getOrigin() != VMOption.Origin.ERGONOMIC;
  }
}
