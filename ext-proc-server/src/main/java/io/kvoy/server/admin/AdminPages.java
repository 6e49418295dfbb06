// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.admin;

import java.io.IOException;
import java.io.OutputStream;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * Where the admin pages get their content. Each is called on a virtual thread per request, several
 * at a time, and answers within milliseconds from what is in memory.
 *
 * <p>Values are records, lists and maps as {@link io.kvoy.server.json.JsonText} writes them. They
 * never hold prompt text.
 *
 * @param readiness whether traffic should come
 * @param metrics writes the metrics page
 * @param fleet workers and what is known of each
 * @param xds proxies that are configured from here
 * @param decisions decisions that are still remembered
 */
public record AdminPages(
    Supplier<Readiness> readiness,
    MetricsPage metrics,
    Supplier<?> fleet,
    Supplier<?> xds,
    DecisionPages decisions) {

  /** Writes the metrics in the Prometheus text format 0.0.4. */
  @FunctionalInterface
  public interface MetricsPage {
    void write(OutputStream out) throws IOException;
  }

  /** Finds remembered decisions. */
  public interface DecisionPages {
    /** The decision with this id, which is text from outside; empty when it is not remembered. */
    Optional<?> byId(String id);

    /** The newest decisions, newest first, at most {@code limit}. */
    List<?> newest(int limit);
  }
}
