// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Reads the few numbers that the pick needs out of a worker's metrics page in the Prometheus text
 * format, and skips the rest without making objects of it.
 *
 * <p>A page of vLLM 0.32 has 70 KB and 600 lines, of which a dozen matter. Names are matched as
 * bytes; labels are read only on lines that matter. Series of several data-parallel ranks or models
 * behind one address add up, except usage, where the fullest counts. Pages and lines beyond the
 * limits are cut: what was not read is {@link Reading#MISSING}.
 *
 * <p>Stateless; any thread.
 */
public final class PrometheusText {
  /** A page longer than this is read up to here; vLLM's own stays under 100 KB. */
  public static final int MAX_PAGE_BYTES = 4 << 20;

  /** Longer lines are skipped; {@code vllm:cache_config_info}, the longest, has 1.2 KB. */
  static final int MAX_LINE_BYTES = 16 << 10;

  /** Adapter names kept per list. */
  private static final int MAX_ADAPTERS = 256;

  /** Longest text taken for a number. */
  private static final int MAX_NUMBER_BYTES = 32;

  // What is looked for. Where several names mean the same, the first that is present counts.
  private static final byte[][] RUNNING =
      ascii("vllm:num_requests_running", "sglang:num_running_reqs");
  private static final byte[][] WAITING =
      ascii("vllm:num_requests_waiting", "sglang:num_queue_reqs");
  // vLLM up to 0.11 has the gpu_ names only or both.
  private static final byte[][] KV_USAGE =
      ascii("vllm:kv_cache_usage_perc", "sglang:token_usage", "vllm:gpu_cache_usage_perc");
  private static final byte[][] PREFIX_QUERIES =
      ascii("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total");
  private static final byte[][] PREFIX_HITS =
      ascii("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total");
  private static final byte[][] PROMPT_TOKENS =
      ascii("vllm:prompt_tokens_total", "sglang:prompt_tokens_total");
  private static final byte[][] GENERATED_TOKENS =
      ascii("vllm:generation_tokens_total", "sglang:generation_tokens_total");
  private static final byte[][] PREEMPTIONS = ascii("vllm:num_preemptions_total");
  private static final byte[] CACHE_CONFIG = ascii("vllm:cache_config_info")[0];
  private static final byte[] ADAPTERS = ascii("vllm:lora_requests_info")[0];

  private static byte[][] ascii(String... names) {
    byte[][] bytes = new byte[names.length][];
    for (int i = 0; i < names.length; i++) {
      bytes[i] = names[i].getBytes(StandardCharsets.US_ASCII);
    }
    return bytes;
  }

  /** One number of the page while it is being read. */
  private static final class Series {
    private final byte[][] names;
    private final boolean isShare;
    private int nameUsed = Integer.MAX_VALUE;
    private double sum;
    private boolean invalid;

    Series(byte[][] names, boolean isShare) {
      this.names = names;
      this.isShare = isShare;
    }

    /** Takes a sample in; false when its value makes no sense. */
    boolean add(int nameIndex, double value) {
      if (nameIndex > nameUsed) {
        return true;
      }
      if (nameIndex < nameUsed) {
        nameUsed = nameIndex;
        sum = 0;
        invalid = false;
      }
      if (!(value >= 0) || Double.isInfinite(value) || (isShare && value > 1)) {
        invalid = true;
        return false;
      }
      sum = isShare ? Math.max(sum, value) : sum + value;
      return true;
    }

    Reading reading() {
      if (nameUsed == Integer.MAX_VALUE) {
        return Reading.MISSING;
      }
      return invalid ? Reading.INVALID : Reading.within(sum, 0, Double.MAX_VALUE);
    }
  }

  /** Every wanted name starts with one of these. */
  private static final byte[] VLLM = "vllm:".getBytes(StandardCharsets.US_ASCII);

  private static final byte[] SGLANG = "sglang:".getBytes(StandardCharsets.US_ASCII);

  private final byte[] page;
  private final int end;

  private final Series running = new Series(RUNNING, false);
  private final Series waiting = new Series(WAITING, false);
  private final Series kvUsage = new Series(KV_USAGE, true);
  private final Series prefixQueries = new Series(PREFIX_QUERIES, false);
  private final Series prefixHits = new Series(PREFIX_HITS, false);
  private final Series promptTokens = new Series(PROMPT_TOKENS, false);
  private final Series generatedTokens = new Series(GENERATED_TOKENS, false);
  private final Series preemptions = new Series(PREEMPTIONS, false);
  private final Series[] all = {
    running, waiting, kvUsage, prefixQueries, prefixHits, promptTokens, generatedTokens, preemptions
  };
  private int invalidSamples;
  private int blockSize;
  private long blocks;
  private double newestAdapters = Double.NEGATIVE_INFINITY;
  private AdapterLoad adapters = AdapterLoad.NONE;

  private PrometheusText(byte[] page, int length) {
    this.page = page;
    this.end = Math.min(Math.min(length, page.length), MAX_PAGE_BYTES);
  }

  /**
   * Parses a page; never fails, whatever the bytes are.
   *
   * @param page bytes of the answer
   * @param length how many of them count
   * @param scrapedAtNanos monotonic time to note down
   */
  public static WorkerGauges parse(byte[] page, int length, long scrapedAtNanos) {
    return new PrometheusText(page, length).read(scrapedAtNanos);
  }

  private WorkerGauges read(long scrapedAtNanos) {
    int from = 0;
    while (from < end) {
      int to = from;
      while (to < end && page[to] != '\n') {
        to++;
      }
      if (to - from <= MAX_LINE_BYTES) {
        line(from, to);
      }
      from = to + 1;
    }
    return new WorkerGauges(
        scrapedAtNanos,
        running.reading(),
        waiting.reading(),
        kvUsage.reading(),
        blockSize,
        blocks,
        prefixQueries.reading(),
        prefixHits.reading(),
        promptTokens.reading(),
        generatedTokens.reading(),
        preemptions.reading(),
        adapters,
        invalidSamples,
        kvUsage.nameUsed == 2 || prefixQueries.nameUsed == 1);
  }

  private void line(int from, int to) {
    if (!startsWith(from, to, VLLM) && !startsWith(from, to, SGLANG)) {
      return;
    }
    int nameEnd = from;
    while (nameEnd < to && page[nameEnd] != '{' && page[nameEnd] != ' ' && page[nameEnd] != '\t') {
      nameEnd++;
    }
    if (isNamed(from, nameEnd, CACHE_CONFIG) || isNamed(from, nameEnd, ADAPTERS)) {
      info(from, nameEnd, to);
      return;
    }
    for (Series series : all) {
      for (int n = 0; n < series.names.length; n++) {
        if (isNamed(from, nameEnd, series.names[n])) {
          int valueStart = afterLabels(nameEnd, to);
          if (valueStart < 0 || !series.add(n, number(valueStart, to))) {
            invalidSamples++;
          }
          return;
        }
      }
    }
  }

  /** Series whose labels are the news. */
  private void info(int from, int nameEnd, int to) {
    int labelsEnd = afterLabels(nameEnd, to);
    if (labelsEnd < 0) {
      invalidSamples++;
      return;
    }
    if (isNamed(from, nameEnd, CACHE_CONFIG)) {
      blockSize = (int) Math.min(wholeLabel(nameEnd, labelsEnd, "block_size"), 1 << 20);
      blocks += wholeLabel(nameEnd, labelsEnd, "num_gpu_blocks");
      return;
    }
    // The value is the time of the report; old label sets stay on the page.
    double reportedAt = number(labelsEnd, to);
    if (reportedAt > newestAdapters && !Double.isInfinite(reportedAt)) {
      newestAdapters = reportedAt;
      adapters =
          new AdapterLoad(
              (int) Math.min(wholeLabel(nameEnd, labelsEnd, "max_lora"), 1 << 20),
              names(label(nameEnd, labelsEnd, "running_lora_adapters")),
              names(label(nameEnd, labelsEnd, "waiting_lora_adapters")));
    }
  }

  private boolean isNamed(int from, int nameEnd, byte[] name) {
    return Arrays.equals(page, from, nameEnd, name, 0, name.length);
  }

  private int afterLabels(int nameEnd, int to) {
    return nameEnd < to && page[nameEnd] == '{' ? skipLabels(nameEnd + 1, to) : nameEnd;
  }

  private boolean startsWith(int from, int to, byte[] prefix) {
    return to - from >= prefix.length
        && Arrays.equals(page, from, from + prefix.length, prefix, 0, prefix.length);
  }

  /** Position after the closing brace, -1 when there is none. */
  private int skipLabels(int from, int to) {
    boolean quoted = false;
    for (int i = from; i < to; i++) {
      byte c = page[i];
      if (quoted && c == '\\') {
        i++;
      } else if (c == '"') {
        quoted = !quoted;
      } else if (c == '}' && !quoted) {
        return i + 1;
      }
    }
    return -1;
  }

  /** The number after the labels, NaN when there is none. */
  private double number(int from, int to) {
    int start = from;
    while (start < to && (page[start] == ' ' || page[start] == '\t')) {
      start++;
    }
    int stop = start;
    while (stop < to && page[stop] != ' ' && page[stop] != '\t' && page[stop] != '\r') {
      stop++;
    }
    if (stop == start || stop - start > MAX_NUMBER_BYTES) {
      return Double.NaN;
    }
    String text = new String(page, start, stop - start, StandardCharsets.ISO_8859_1);
    return switch (text) {
      case "+Inf", "Inf" -> Double.POSITIVE_INFINITY;
      case "-Inf" -> Double.NEGATIVE_INFINITY;
      case "NaN" -> Double.NaN;
      default -> decimal(text);
    };
  }

  private static double decimal(String text) {
    try {
      return Double.parseDouble(text);
    } catch (NumberFormatException _) {
      return Double.NaN;
    }
  }

  private long wholeLabel(int from, int to, String name) {
    String text = label(from, to, name);
    if (text == null || text.isEmpty() || text.length() > 15) {
      return 0;
    }
    long value = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c < '0' || c > '9') {
        return 0;
      }
      value = value * 10 + (c - '0');
    }
    return value;
  }

  /** Value of a label between the braces, null when it is not there. */
  private @Nullable String label(int from, int to, String name) {
    int i = from + 1;
    while (i < to) {
      int nameStart = i;
      while (i < to && page[i] != '=' && page[i] != '}') {
        i++;
      }
      boolean wanted = matches(nameStart, i, name);
      // Stands on '=' before the opening quote.
      i += 2;
      int valueStart = i;
      while (i < to && page[i] != '"') {
        i += page[i] == '\\' ? 2 : 1;
      }
      if (wanted && i <= to) {
        return new String(
            page, valueStart, Math.max(0, Math.min(i, to) - valueStart), StandardCharsets.UTF_8);
      }
      i++;
      while (i < to && (page[i] == ',' || page[i] == ' ')) {
        i++;
      }
    }
    return null;
  }

  private boolean matches(int from, int to, String name) {
    if (to - from != name.length()) {
      return false;
    }
    for (int i = 0; i < name.length(); i++) {
      if (page[from + i] != name.charAt(i)) {
        return false;
      }
    }
    return true;
  }

  private static List<String> names(@Nullable String text) {
    if (text == null || text.isEmpty()) {
      return List.of();
    }
    var names = new ArrayList<String>();
    int from = 0;
    while (from <= text.length() && names.size() < MAX_ADAPTERS) {
      int comma = text.indexOf(',', from);
      int to = comma < 0 ? text.length() : comma;
      String name = text.substring(from, to).strip();
      if (!name.isEmpty()) {
        names.add(name);
      }
      from = to + 1;
    }
    return names;
  }
}
