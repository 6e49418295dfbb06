// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.jspecify.annotations.Nullable;

/** One scenario under one policy with one seed. */
final class LabRun implements SimRequest.Listener {
  /** From a worker's cache change to the router's knowledge of it. */
  private static final double EVENT_DELAY_MILLIS = 10;

  /** From the router to the worker. */
  private static final double NETWORK_MILLIS = 1;

  /** How often a rate that changes is looked at. */
  private static final double RATE_CHECK_MILLIS = 50;

  /** A user whose request was refused comes back after this. */
  private static final double RETRY_MILLIS = 1000;

  /** Makes the policy of a run. */
  interface PolicyMaker {
    RoutingPolicy make(LabRun run);
  }

  final VirtualTime time = new VirtualTime();
  final List<SimWorker> workers = new ArrayList<>();
  final CacheMirror mirror;
  final Random policyRandom;
  final Scenario scenario;
  private final Random workloadRandom;
  private final RoutingPolicy policy;
  private final boolean[] open;
  private final List<SimRequest> all = new ArrayList<>();
  private final List<@Nullable SimRequest> lastOfUser = new ArrayList<>();
  private final Map<SimRequest, Integer> userOf = new HashMap<>();
  private int refused;

  LabRun(Scenario scenario, PolicyMaker maker, long seed) {
    this.scenario = scenario;
    this.workloadRandom = new Random(seed);
    this.policyRandom = new Random(seed ^ 0x5DEECE66DL);
    this.mirror = new CacheMirror(time, scenario.profiles().size(), EVENT_DELAY_MILLIS);
    for (EngineProfile profile : scenario.profiles()) {
      workers.add(new SimWorker(workers.size(), profile, time, mirror::changed));
    }
    this.open = new boolean[workers.size()];
    Arrays.fill(open, true);
    this.policy = maker.make(this);
  }

  /**
   * What came out.
   *
   * @param late share of the taken requests that did not fail and had no first token within the
   *     target
   */
  record Result(
      double medianMillis,
      double p90Millis,
      double p99Millis,
      double hitShare,
      double goodPerMinute,
      double donePerMinute,
      int requests,
      int failed,
      int refused,
      double late) {}

  Result run() {
    scenario.plot().accept(this);
    Workload workload = scenario.workload();
    for (int user = 0; user < workload.users(); user++) {
      lastOfUser.add(null);
      int u = user;
      // Users do not all start at once.
      time.at(workloadRandom.nextDouble() * 5000, () -> ask(u));
    }
    if (workload.users() == 0) {
      nextArrival();
    }
    double end = scenario.warmUpMillis() + scenario.measuredMillis();
    time.runUntil(end);
    return result(end);
  }

  RoutingPolicy policy() {
    return policy;
  }

  private void nextArrival() {
    double rate = scenario.workload().ratePerSecond(time.nowMillis());
    double gap = -Math.log(1 - workloadRandom.nextDouble()) * 1000 / rate;
    // Exponential gaps have no memory: drawing again after a while is the same process, and a
    // rate that changes is seen in time.
    if (gap > RATE_CHECK_MILLIS) {
      time.after(RATE_CHECK_MILLIS, this::nextArrival);
    } else {
      time.after(gap, this::arrive);
    }
  }

  private void arrive() {
    SimRequest request =
        scenario.workload() instanceof Workloads.Burst burst
            ? burst.next(time.nowMillis(), workloadRandom)
            : scenario.workload().next(0, null, workloadRandom);
    route(request);
    nextArrival();
  }

  private void ask(int user) {
    SimRequest request = scenario.workload().next(user, lastOfUser.get(user), workloadRandom);
    lastOfUser.set(user, request);
    userOf.put(request, user);
    if (!route(request)) {
      time.after(RETRY_MILLIS, () -> ask(user));
    }
  }

  private boolean route(SimRequest request) {
    request.arrivedMillis = time.nowMillis();
    request.listener = this;
    List<Integer> candidates = new ArrayList<>();
    for (int i = 0; i < open.length; i++) {
      if (open[i]) {
        candidates.add(i);
      }
    }
    int chosen = candidates.isEmpty() ? RoutingPolicy.REFUSE : policy.choose(request, candidates);
    if (chosen == RoutingPolicy.REFUSE) {
      if (time.nowMillis() >= scenario.warmUpMillis()) {
        refused++;
      }
      return false;
    }
    all.add(request);
    request.worker = chosen;
    policy.placed(request);
    time.after(NETWORK_MILLIS, () -> workers.get(chosen).submit(request));
    return true;
  }

  @Override
  public void firstToken(SimRequest request) {
    policy.firstToken(request);
  }

  @Override
  public void ended(SimRequest request) {
    policy.ended(request);
    Integer user = userOf.remove(request);
    if (user != null) {
      double pause = scenario.workload().thinkMillis(workloadRandom);
      time.after(request.failed ? pause + RETRY_MILLIS : pause, () -> ask(user));
    }
  }

  /** Takes a worker out of new traffic or back in. */
  void setOpen(int worker, boolean isOpen, boolean restarted) {
    open[worker] = isOpen;
    policy.workerState(worker, isOpen, restarted);
  }

  private Result result(double end) {
    double minutes = scenario.measuredMillis() / 60_000;
    var times = new ArrayList<Double>();
    double prompt = 0;
    double cached = 0;
    int good = 0;
    int done = 0;
    int failed = 0;
    int counted = 0;
    int late = 0;
    for (SimRequest request : all) {
      if (request.arrivedMillis < scenario.warmUpMillis()) {
        continue;
      }
      counted++;
      if (request.failed) {
        // Its caller never saw a first token: it counts as the longest wait there is.
        failed++;
        times.add(end);
        continue;
      }
      boolean started = !Double.isNaN(request.firstTokenMillis);
      // A request still without a first token has waited at least until the end.
      double ttft = started ? request.ttftMillis() : end - request.arrivedMillis;
      if (started || ttft > scenario.sloMillis()) {
        times.add(ttft);
      }
      if (ttft > scenario.sloMillis()) {
        late++;
      }
      if (started) {
        prompt += request.promptTokens;
        cached += request.cachedTokens;
        if (ttft <= scenario.sloMillis()) {
          good++;
        }
      }
      if (!Double.isNaN(request.endMillis)) {
        done++;
      }
    }
    times.sort(null);
    return new Result(
        quantile(times, 0.5),
        quantile(times, 0.9),
        quantile(times, 0.99),
        prompt > 0 ? cached / prompt : 0,
        good / minutes,
        done / minutes,
        counted,
        failed,
        refused,
        counted > failed ? late / (double) (counted - failed) : 0);
  }

  private static double quantile(List<Double> sorted, double q) {
    return sorted.isEmpty()
        ? Double.NaN
        : sorted.get(Math.min(sorted.size() - 1, (int) (q * sorted.size())));
  }
}
