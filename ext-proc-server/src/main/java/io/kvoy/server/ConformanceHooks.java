// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.List;

/**
 * The two behaviours of the endpoint picker in the conformance tests of
 * gateway-api-inference-extension 1.5 ({@code conformance/}): a client names its endpoint, and is
 * told who served. Both are what must never happen otherwise, so they are off without a flag.
 */
public final class ConformanceHooks {
  /** Request header {@code ip[:port],ip[:port]}: pick from these; from all when none matches. */
  public static final String SELECTION = "test-epp-endpoint-selection";

  /** Response header with what the gateway says who served. */
  public static final String SERVED = "x-conformance-test-served-endpoint";

  private static final int MAX_NAMED = 64;

  private ConformanceHooks() {}

  /** Reads the header; at most {@value #MAX_NAMED} names. */
  public static List<String> selection(String header) {
    List<String> named = new ArrayList<>();
    for (String part : header.split(",", MAX_NAMED + 1)) {
      String name = part.strip();
      if (!name.isEmpty() && named.size() < MAX_NAMED) {
        named.add(name);
      }
    }
    return named;
  }

  /** Those of the candidates that are named, all when none is. */
  static List<Worker> restrict(List<Worker> candidates, List<String> named) {
    if (named.isEmpty()) {
      return candidates;
    }
    List<Worker> left =
        candidates.stream()
            .filter(
                worker ->
                    named.contains(worker.endpoint().toString())
                        || named.contains(worker.endpoint().host())
                        || named.contains("[" + worker.endpoint().host() + "]"))
            .toList();
    return left.isEmpty() ? candidates : left;
  }
}
