// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.List;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ScalarResult;

/**
 * CPU time of the benchmark threads per operation, which a busy machine falsifies less than wall
 * time. Setup at invocation level runs in the same threads and counts too. Add it with {@code -prof
 * io.kvoy.bench.ThreadCpuProfiler}.
 */
public final class ThreadCpuProfiler implements InternalProfiler {

  private static final String WORKER = "-jmh-worker-";

  private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private long startNanos;

  @Override
  public String getDescription() {
    return "CPU time of the benchmark threads per operation";
  }

  @Override
  public void beforeIteration(BenchmarkParams benchmarkParams, IterationParams iterationParams) {
    startNanos = workerNanos();
  }

  @Override
  public Collection<? extends Result<?>> afterIteration(
      BenchmarkParams benchmarkParams, IterationParams iterationParams, IterationResult result) {
    long operations = Math.max(1, result.getMetadata().getMeasuredOps());
    double micros = (workerNanos() - startNanos) / 1e3 / operations;
    return List.of(new ScalarResult("cpu", micros, "us/op", AggregationPolicy.AVG));
  }

  private long workerNanos() {
    long sum = 0;
    for (long id : threads.getAllThreadIds()) {
      var info = threads.getThreadInfo(id);
      if (info != null && info.getThreadName().contains(WORKER)) {
        sum += threads.getThreadCpuTime(id);
      }
    }
    return sum;
  }
}
