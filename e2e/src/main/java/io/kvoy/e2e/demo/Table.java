// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import java.util.ArrayList;
import java.util.List;

/** A plain text table with columns as wide as their content. Not thread-safe. */
final class Table {
  private final List<String> header;
  private final List<List<String>> rows = new ArrayList<>();

  Table(String... header) {
    this.header = List.of(header);
  }

  void row(String... cells) {
    if (cells.length != header.size()) {
      throw new IllegalArgumentException(
          "expected " + header.size() + " cells, got " + cells.length);
    }
    rows.add(List.of(cells));
  }

  /** Text left, numbers right; the last column is never padded. */
  String render() {
    int[] widths = new int[header.size()];
    for (int c = 0; c < widths.length; c++) {
      widths[c] = header.get(c).length();
      for (List<String> row : rows) {
        widths[c] = Math.max(widths[c], row.get(c).length());
      }
    }
    StringBuilder text = new StringBuilder();
    line(text, header, widths);
    StringBuilder rule = new StringBuilder();
    for (int c = 0; c < widths.length; c++) {
      rule.append(c == 0 ? "" : "  ").append("─".repeat(widths[c]));
    }
    text.append(rule).append('\n');
    rows.forEach(row -> line(text, row, widths));
    return text.toString();
  }

  private static void line(StringBuilder text, List<String> cells, int[] widths) {
    StringBuilder line = new StringBuilder();
    for (int c = 0; c < cells.size(); c++) {
      String cell = cells.get(c);
      String padding = " ".repeat(widths[c] - cell.length());
      boolean number = !cell.isEmpty() && (Character.isDigit(cell.charAt(0)) || cell.equals("–"));
      line.append(c == 0 ? "" : "  ").append(number ? padding + cell : cell + padding);
    }
    text.append(line.toString().stripTrailing()).append('\n');
  }
}
