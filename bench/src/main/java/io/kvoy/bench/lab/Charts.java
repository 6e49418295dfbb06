// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Draws the lab's tables as two SVG files, one panel per scenario and one row per policy: time to
 * first token (median to 90th percentile, logarithmic) and good requests a minute.
 */
final class Charts {
  private static final int COLUMNS = 3;
  private static final int PANEL_WIDTH = 330;
  private static final int LABEL_WIDTH = 92;
  private static final int ROW_HEIGHT = 15;
  private static final int HEAD_HEIGHT = 30;
  private static final int FOOT_HEIGHT = 24;
  private static final int GAP = 22;
  private static final int BAR_WIDTH = PANEL_WIDTH - LABEL_WIDTH - 52;

  private static final String OURS = "#0b6e4f";
  private static final String ORACLE = "#b8860b";
  private static final String OTHERS = "#8a94a3";

  private Charts() {}

  static void write(
      Path folder, Map<String, Map<String, List<LabRun.Result>>> byScenario, int seeds)
      throws IOException {
    Files.createDirectories(folder);
    Files.writeString(
        folder.resolve("lab-ttft.svg"),
        page(
            byScenario,
            "Time to first token, median (dot) to 90th percentile (end of line), ms, medians over "
                + seeds
                + " seeds or more",
            true));
    Files.writeString(
        folder.resolve("lab-goodput.svg"),
        page(
            byScenario,
            "Good requests a minute (first token within the scenario's target), medians over "
                + seeds
                + " seeds or more",
            false));
  }

  private static String page(
      Map<String, Map<String, List<LabRun.Result>>> byScenario, String title, boolean times) {
    int policies = byScenario.values().stream().mapToInt(Map::size).max().orElse(0);
    int panelHeight = HEAD_HEIGHT + policies * ROW_HEIGHT + FOOT_HEIGHT;
    int rows = Math.ceilDiv(byScenario.size(), COLUMNS);
    int width = COLUMNS * (PANEL_WIDTH + GAP) + GAP;
    int height = 44 + rows * (panelHeight + GAP);
    var svg = new StringBuilder();
    add(
        svg,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d'"
            + " font-family='sans-serif' font-size='11'>%n",
        width,
        height,
        width,
        height);
    add(svg, "<rect width='%d' height='%d' fill='white'/>%n", width, height);
    add(svg, "<text x='%d' y='26' font-size='14' fill='#222'>%s</text>%n", GAP, title);
    int panel = 0;
    for (var scenario : byScenario.entrySet()) {
      int x = GAP + (panel % COLUMNS) * (PANEL_WIDTH + GAP);
      int y = 44 + (panel / COLUMNS) * (panelHeight + GAP);
      add(svg, "<g transform='translate(%d,%d)'>%n", x, y);
      add(
          svg,
          "<text x='0' y='16' font-size='12' font-weight='bold' fill='#222'>%s</text>%n",
          scenario.getKey());
      if (times) {
        times(svg, scenario.getValue());
      } else {
        goodput(svg, scenario.getValue());
      }
      add(svg, "</g>%n");
      panel++;
    }
    return svg.append("</svg>\n").toString();
  }

  private static void times(StringBuilder svg, Map<String, List<LabRun.Result>> policies) {
    double least = Double.POSITIVE_INFINITY;
    double most = 0;
    for (List<LabRun.Result> results : policies.values()) {
      least = Math.min(least, Lab.median(results, LabRun.Result::medianMillis));
      most = Math.max(most, Lab.median(results, LabRun.Result::p90Millis));
    }
    double from = Math.floor(Math.log10(least));
    double to = Math.max(from + 1, Math.ceil(Math.log10(most)));
    int bottom = HEAD_HEIGHT + policies.size() * ROW_HEIGHT;
    for (int decade = (int) from; decade <= to; decade++) {
      double x = LABEL_WIDTH + BAR_WIDTH * (decade - from) / (to - from);
      add(
          svg,
          "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='#e3e6ea'/>%n",
          x,
          HEAD_HEIGHT - 4,
          x,
          bottom);
      add(
          svg,
          "<text x='%.1f' y='%d' text-anchor='middle' fill='#666'>%s</text>%n",
          x,
          bottom + 13,
          decade < 3
              ? "%d".formatted((int) Math.pow(10, decade))
              : (int) Math.pow(10, decade - 3) + " s");
    }
    int row = 0;
    for (var policy : policies.entrySet()) {
      int y = HEAD_HEIGHT + row++ * ROW_HEIGHT + ROW_HEIGHT / 2;
      String color = color(policy.getKey());
      double p50 = Lab.median(policy.getValue(), LabRun.Result::medianMillis);
      double p90 = Lab.median(policy.getValue(), LabRun.Result::p90Millis);
      double x50 = LABEL_WIDTH + BAR_WIDTH * (Math.log10(p50) - from) / (to - from);
      double x90 = LABEL_WIDTH + BAR_WIDTH * (Math.log10(p90) - from) / (to - from);
      label(svg, policy.getKey(), y, color);
      add(
          svg,
          "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='%s' stroke-width='3'/>%n",
          x50,
          y,
          x90,
          y,
          color);
      add(svg, "<circle cx='%.1f' cy='%d' r='4' fill='%s'/>%n", x50, y, color);
      add(
          svg,
          "<text x='%.1f' y='%d' fill='#444' font-size='9'>%.0f / %.0f</text>%n",
          x90 + 6,
          y + 3,
          p50,
          p90);
    }
  }

  private static void goodput(StringBuilder svg, Map<String, List<LabRun.Result>> policies) {
    double most = 1;
    for (List<LabRun.Result> results : policies.values()) {
      most = Math.max(most, Lab.median(results, LabRun.Result::goodPerMinute));
    }
    int row = 0;
    for (var policy : policies.entrySet()) {
      int y = HEAD_HEIGHT + row++ * ROW_HEIGHT;
      String color = color(policy.getKey());
      double good = Lab.median(policy.getValue(), LabRun.Result::goodPerMinute);
      double length = BAR_WIDTH * good / most;
      label(svg, policy.getKey(), y + ROW_HEIGHT / 2, color);
      add(
          svg,
          "<rect x='%d' y='%d' width='%.1f' height='%d' fill='%s'/>%n",
          LABEL_WIDTH,
          y + 2,
          length,
          ROW_HEIGHT - 4,
          color);
      add(
          svg,
          "<text x='%.1f' y='%d' fill='#444' font-size='9'>%.0f</text>%n",
          LABEL_WIDTH + length + 5,
          y + ROW_HEIGHT / 2 + 3,
          good);
    }
  }

  private static void label(StringBuilder svg, String policy, int y, String color) {
    add(
        svg,
        "<text x='%d' y='%d' text-anchor='end' fill='%s'>%s</text>%n",
        LABEL_WIDTH - 8,
        y + 4,
        color.equals(OTHERS) ? "#444" : color,
        policy);
  }

  private static String color(String policy) {
    return policy.startsWith("kvoy") ? OURS : policy.startsWith("oracle") ? ORACLE : OTHERS;
  }

  @SuppressWarnings("AnnotateFormatMethod") // private, and each format is a literal
  private static void add(StringBuilder svg, String format, Object... values) {
    svg.append(String.format(Locale.ROOT, format, values));
  }
}
