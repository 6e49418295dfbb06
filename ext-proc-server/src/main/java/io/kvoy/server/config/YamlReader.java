// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.server.config.ConfigProblem.Kind;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Parse;
import org.snakeyaml.engine.v2.common.Anchor;
import org.snakeyaml.engine.v2.events.AliasEvent;
import org.snakeyaml.engine.v2.events.CollectionStartEvent;
import org.snakeyaml.engine.v2.events.DocumentStartEvent;
import org.snakeyaml.engine.v2.events.Event;
import org.snakeyaml.engine.v2.events.MappingStartEvent;
import org.snakeyaml.engine.v2.events.NodeEvent;
import org.snakeyaml.engine.v2.events.ScalarEvent;
import org.snakeyaml.engine.v2.events.SequenceStartEvent;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.ReaderException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;

/**
 * Text to {@link YamlNode} trees, one per document.
 *
 * <p>Built on the parser's event stream, not on its ready-made tree: the stream carries the place
 * of every key and value, a key written twice is still visible in it, and depth and the growth by
 * aliases are bounded while reading. Documents before a syntax error are still returned, so that
 * their problems are reported in the same run.
 *
 * <p>Refused because they would make a file mean something that its reader does not see: tags,
 * merge keys, keys that are no plain values.
 */
final class YamlReader {
  /** Deepest nesting; our own documents need 7. */
  static final int MAX_DEPTH = 32;

  /** Most nodes, each alias counted with all that it stands for: 4096 workers of 30 nodes. */
  static final int MAX_NODES = 200_000;

  private final Iterator<Event> events;
  private final Problems problems;
  private final Map<Anchor, Anchored> anchors = new HashMap<>();
  private int nodes;

  /** A tree that has a name, with the number of nodes that each use of it adds. */
  private record Anchored(YamlNode node, int size) {}

  /** Leaves the reader when going on makes no sense; the problem is already recorded. */
  private static final class Unreadable extends Exception {
    private static final long serialVersionUID = 1L;

    Unreadable() {
      super(null, null, false, false);
    }
  }

  private YamlReader(String text, Problems problems) {
    LoadSettings settings =
        LoadSettings.builder().setLabel("").setCodePointLimit(Integer.MAX_VALUE).build();
    this.events = new Parse(settings).parseString(text).iterator();
    this.problems = problems;
  }

  /**
   * Reads all documents; what cannot be read goes to {@code problems}.
   *
   * @param text bounded by the caller
   */
  static List<YamlNode> read(String text, Problems problems) {
    List<YamlNode> documents = new ArrayList<>();
    try {
      YamlReader reader = new YamlReader(text, problems);
      while (reader.events.hasNext()) {
        if (reader.events.next() instanceof DocumentStartEvent) {
          reader.anchors.clear();
          YamlNode node = reader.node(reader.events.next(), 1);
          if (!(node instanceof YamlNode.Scalar scalar && scalar.isNull())) {
            documents.add(node);
          }
        }
      }
    } catch (Unreadable _) {
      // Recorded where it was found.
    } catch (MarkedYamlEngineException e) {
      Optional<Mark> mark = e.getProblemMark().or(e::getContextMark);
      problems.add(
          Kind.SYNTAX,
          "no valid YAML: " + firstLine(e.getProblem()),
          "the file",
          mark.map(m -> m.getLine() + 1).orElse(0),
          mark.map(m -> m.getColumn() + 1).orElse(0),
          "");
    } catch (ReaderException e) {
      int at = Math.min(e.getPosition(), text.length());
      int line = 1 + (int) text.substring(0, at).chars().filter(c -> c == '\n').count();
      problems.add(
          Kind.SYNTAX,
          "no valid YAML: character U+%04X is not allowed".formatted(e.getCodePoint()),
          "the file",
          line,
          at - text.lastIndexOf('\n', at - 1),
          "");
    } catch (YamlEngineException e) {
      problems.add(
          Kind.SYNTAX, "no valid YAML: " + firstLine(e.getMessage()), "the file", 0, 0, "");
    }
    return documents;
  }

  private static String firstLine(@Nullable String message) {
    if (message == null) {
      return "unknown reason";
    }
    int end = message.indexOf('\n');
    return end < 0 ? message : message.substring(0, end);
  }

  private YamlNode node(Event event, int depth) throws Unreadable {
    int line = line(event);
    int column = column(event);
    if (event instanceof AliasEvent alias) {
      Anchored target = anchors.get(alias.getAlias());
      if (target == null) {
        throw fail("alias '*" + alias.getAlias() + "' names nothing before it", line, column);
      }
      count(target.size(), line, column);
      return target.node();
    }
    if (depth > MAX_DEPTH) {
      throw fail("nesting deeper than " + MAX_DEPTH + " levels", line, column);
    }
    count(1, line, column);
    int before = nodes;
    YamlNode node =
        switch (event) {
          case ScalarEvent scalar -> {
            refuseTag(scalar.getTag(), line, column);
            yield new YamlNode.Scalar(scalar.getValue(), scalar.isPlain(), line, column);
          }
          case SequenceStartEvent start -> sequence(start, depth);
          case MappingStartEvent start -> mapping(start, depth);
          default -> throw new IllegalStateException("parser sent " + event.getEventId());
        };
    if (event instanceof NodeEvent named && named.getAnchor().isPresent()) {
      anchors.put(named.getAnchor().get(), new Anchored(node, nodes - before + 1));
    }
    return node;
  }

  private YamlNode sequence(CollectionStartEvent start, int depth) throws Unreadable {
    refuseTag(start.getTag(), line(start), column(start));
    List<YamlNode> items = new ArrayList<>();
    for (Event next = events.next();
        next.getEventId() != Event.ID.SequenceEnd;
        next = events.next()) {
      items.add(node(next, depth + 1));
    }
    return new YamlNode.Sequence(items, line(start), column(start));
  }

  private YamlNode mapping(CollectionStartEvent start, int depth) throws Unreadable {
    refuseTag(start.getTag(), line(start), column(start));
    List<YamlNode.Entry> entries = new ArrayList<>();
    Map<String, Integer> firstLines = new HashMap<>();
    for (Event next = events.next();
        next.getEventId() != Event.ID.MappingEnd;
        next = events.next()) {
      if (!(node(next, depth + 1) instanceof YamlNode.Scalar key)) {
        throw fail("a list or mapping used as a key", line(next), column(next));
      }
      if (key.plain() && key.text().equals("<<")) {
        throw fail("merge key '<<' is not supported", key.line(), key.column());
      }
      YamlNode value = node(events.next(), depth + 1);
      Integer first = firstLines.putIfAbsent(key.text(), key.line());
      if (first == null) {
        entries.add(new YamlNode.Entry(key, value));
      } else {
        problems.add(
            Kind.DUPLICATE_KEY,
            "key " + key.seen() + " is written twice",
            "one mapping",
            key.line(),
            key.column(),
            "it stands already at line " + first + ", remove one of them");
      }
    }
    return new YamlNode.Mapping(entries, line(start), column(start));
  }

  private void refuseTag(Optional<String> tag, int line, int column) throws Unreadable {
    if (tag.isPresent()) {
      throw fail("tag '" + tag.get() + "' is not supported", line, column);
    }
  }

  private void count(int more, int line, int column) throws Unreadable {
    nodes += more;
    if (nodes > MAX_NODES) {
      throw fail(
          "more than " + MAX_NODES + " values, those that aliases repeat included", line, column);
    }
  }

  private Unreadable fail(String what, int line, int column) {
    problems.add(Kind.SYNTAX, what, "the file", line, column, "");
    return new Unreadable();
  }

  private static int line(Event event) {
    return event.getStartMark().map(mark -> mark.getLine() + 1).orElse(0);
  }

  private static int column(Event event) {
    return event.getStartMark().map(mark -> mark.getColumn() + 1).orElse(0);
  }
}
