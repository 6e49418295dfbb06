// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.List;
import java.util.Random;
import java.util.function.ToDoubleFunction;

/** The policies that others use, and oracles that see the workers' true state. */
final class SimplePolicies {
  private SimplePolicies() {}

  static RoutingPolicy random(Random random) {
    return (_, open) -> open.get(random.nextInt(open.size()));
  }

  static RoutingPolicy roundRobin() {
    return new RoutingPolicy() {
      private int next;

      @Override
      public int choose(SimRequest request, List<Integer> open) {
        return open.get(Math.floorMod(next++, open.size()));
      }
    };
  }

  /** Fewest requests in flight, by the router's own exact count. */
  static RoutingPolicy leastRequest(int workers, Random random) {
    return new RoutingPolicy() {
      private final int[] inFlight = new int[workers];

      @Override
      public int choose(SimRequest request, List<Integer> open) {
        return lowest(open, random, w -> inFlight[w]);
      }

      @Override
      public void placed(SimRequest request) {
        inFlight[request.worker]++;
      }

      @Override
      public void ended(SimRequest request) {
        inFlight[request.worker]--;
      }
    };
  }

  /**
   * The first blocks decide: rendezvous hashing, so that a worker that leaves moves only its own.
   */
  static RoutingPolicy prefixHash(int prefixBlocks) {
    return (request, open) -> {
      int blocks = Math.min(prefixBlocks, request.blockKeys.length);
      long key = blocks == 0 ? request.promptTokens : request.blockKeys[blocks - 1];
      int best = open.getFirst();
      long bestWeight = Long.MIN_VALUE;
      for (int worker : open) {
        long weight = SimRequest.mix(key ^ SimRequest.mix(worker + 1));
        if (weight > bestWeight) {
          bestWeight = weight;
          best = worker;
        }
      }
      return best;
    };
  }

  /** Always the longest cached prefix. */
  static RoutingPolicy warmest(CacheMirror mirror, Random random) {
    return (request, open) -> lowest(open, random, w -> -mirror.confirmedTokens(w, request));
  }

  /** Weighted scores as llm-d's default configuration has them: queue 2, KV usage 2, prefix 3. */
  static RoutingPolicy weightedScores(CacheMirror mirror, List<SimWorker> workers, Random random) {
    return (request, open) -> {
      int most = open.stream().mapToInt(w -> workers.get(w).waitingCount()).max().orElse(0);
      int least = open.stream().mapToInt(w -> workers.get(w).waitingCount()).min().orElse(0);
      return lowest(
          open,
          random,
          w -> {
            SimWorker worker = workers.get(w);
            double queue =
                most == least ? 1 : (most - worker.waitingCount()) / (double) (most - least);
            double prefix = mirror.confirmedTokens(w, request) / (double) request.promptTokens;
            return -(2 * queue + 2 * (1 - worker.kvUsage()) + 3 * prefix);
          });
    };
  }

  /** Blocks to prefill plus blocks in use, lowest wins: the cost of NVIDIA Dynamo's KV router. */
  static RoutingPolicy blockCost(CacheMirror mirror, List<SimWorker> workers, Random random) {
    return new RoutingPolicy() {
      private final double[] prefillTokens = new double[workers.size()];
      private final double[] activeTokens = new double[workers.size()];

      @Override
      public int choose(SimRequest request, List<Integer> open) {
        return lowest(
            open,
            random,
            w ->
                prefillTokens[w]
                    + request.promptTokens
                    - mirror.confirmedTokens(w, request)
                    + activeTokens[w]);
      }

      @Override
      public void placed(SimRequest request) {
        prefillTokens[request.worker] += request.promptTokens;
        activeTokens[request.worker] += request.promptTokens;
      }

      @Override
      public void firstToken(SimRequest request) {
        prefillTokens[request.worker] -= request.promptTokens;
      }

      @Override
      public void ended(SimRequest request) {
        if (Double.isNaN(request.firstTokenMillis)) {
          prefillTokens[request.worker] -= request.promptTokens;
        }
        activeTokens[request.worker] -= request.promptTokens;
      }
    };
  }

  /** True lowest time to first token of this request, whatever that does to others. */
  static RoutingPolicy oracle(List<SimWorker> workers, Random random) {
    return (request, open) -> lowest(open, random, w -> workers.get(w).oracleTtftMillis(request));
  }

  static int lowest(List<Integer> open, Random random, ToDoubleFunction<Integer> cost) {
    int best = open.getFirst();
    double bestCost = Double.POSITIVE_INFINITY;
    int ties = 0;
    for (int worker : open) {
      double c = cost.applyAsDouble(worker);
      if (c < bestCost - 1e-9) {
        bestCost = c;
        best = worker;
        ties = 1;
      } else if (c <= bestCost + 1e-9 && random.nextInt(++ties) == 0) {
        best = worker;
      }
    }
    return best;
  }
}
