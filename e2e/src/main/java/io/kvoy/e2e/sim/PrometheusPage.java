// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.SequencedMap;
import java.util.SequencedSet;

/**
 * Writes the Prometheus text format the way Python's client library does: every number a float, a
 * {@code _created} gauge after each counter and histogram, labels in alphabetical order. Used
 * within one call of a scrape.
 */
final class PrometheusPage {
  private final StringBuilder out = new StringBuilder(32_768);
  private final String engine;
  private final String model;
  private final double createdUnixSeconds;

  /**
   * @param engine rendered label of the engine, such as {@code engine="0"}
   * @param model rendered label of the model
   */
  PrometheusPage(String engine, String model, double createdUnixSeconds) {
    this.engine = engine;
    this.model = model;
    this.createdUnixSeconds = createdUnixSeconds;
  }

  /**
   * Several engines' pages as one: each family once, with the samples of all engines, equal ones
   * once.
   */
  static String merged(List<String> pages) {
    if (pages.size() == 1) {
      return pages.getFirst();
    }
    SequencedMap<String, SequencedSet<String>> families = new LinkedHashMap<>();
    for (String page : pages) {
      String family = "";
      for (String line : page.lines().toList()) {
        if (line.startsWith("# HELP ")) {
          family = line;
        }
        families.computeIfAbsent(family, _ -> new LinkedHashSet<>()).add(line);
      }
    }
    StringBuilder merged = new StringBuilder();
    families.values().forEach(lines -> lines.forEach(line -> merged.append(line).append('\n')));
    return merged.toString();
  }

  String text() {
    return out.toString();
  }

  void gauge(String name, String help, double value) {
    family(name, "gauge", help);
    sample(name, engine + "," + model, value);
  }

  void counter(String base, String help, double value) {
    family(base + "_total", "counter", help);
    sample(base + "_total", engine + "," + model, value);
    family(base + "_created", "gauge", help);
    sample(base + "_created", engine + "," + model, createdUnixSeconds);
  }

  Family gaugeFamily(String name, String help) {
    family(name, "gauge", help);
    return new Family(name, name, help, engine);
  }

  Family counterFamily(String base, String help) {
    family(base + "_total", "counter", help);
    return new Family(base, base + "_total", help, engine);
  }

  /** A counter of the API server, which knows no engine. */
  Family counterFamilyWithoutEngine(String base, String help) {
    family(base + "_total", "counter", help);
    return new Family(base, base + "_total", help, "");
  }

  void histogram(String name, String help, EngineMetrics.Histogram histogram) {
    family(name, "histogram", help);
    double below = 0;
    double[] bounds = histogram.bounds();
    for (int i = 0; i <= bounds.length; i++) {
      below += histogram.count(i);
      String bound = i == bounds.length ? "+Inf" : number(bounds[i]);
      sample(name + "_bucket", engine + ",le=\"" + bound + "\"," + model, below);
    }
    sample(name + "_count", engine + "," + model, histogram.total());
    sample(name + "_sum", engine + "," + model, histogram.sum());
    family(name + "_created", "gauge", help);
    sample(name + "_created", engine + "," + model, createdUnixSeconds);
  }

  /** Opens a family whose samples carry their labels whole. */
  void bareFamily(String name, String type, String help) {
    family(name, type, help);
  }

  void bare(String name, String labels, double value) {
    sample(name, labels, value);
  }

  private void family(String name, String type, String help) {
    out.append("# HELP ").append(name).append(' ').append(help).append('\n');
    out.append("# TYPE ").append(name).append(' ').append(type).append('\n');
  }

  private void sample(String name, String labels, double value) {
    out.append(name);
    if (!labels.isEmpty()) {
      out.append('{').append(labels).append('}');
    }
    out.append(' ').append(number(value)).append('\n');
  }

  private static String number(double value) {
    // Java writes 1.7E9 where Python writes 1.7e+09; both are read alike.
    return Double.toString(value).replace("E-", "e-").replace("E", "e+");
  }

  /** A family with one extra label. */
  final class Family {
    private final String base;
    private final String name;
    private final String help;
    private final String first;
    private final StringBuilder created = new StringBuilder();

    private Family(String base, String name, String help, String first) {
      this.base = base;
      this.name = name;
      this.help = help;
      this.first = first;
    }

    Family labelled(String label, String value, double sample) {
      String labels = labels(label + "=\"" + value + "\"", label);
      sample(name, labels, sample);
      created
          .append(base)
          .append("_created{")
          .append(labels)
          .append("} ")
          .append(number(createdUnixSeconds))
          .append('\n');
      return this;
    }

    /** Closes a counter family with its {@code _created} gauges. */
    void created() {
      family(base + "_created", "gauge", help);
      out.append(created);
    }

    private String labels(String rendered, String label) {
      String rest =
          label.compareTo("model_name") < 0 ? rendered + "," + model : model + "," + rendered;
      return first.isEmpty() ? rest : first + "," + rest;
    }
  }
}
