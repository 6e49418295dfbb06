// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.server.config.ConfigProblem.Kind;
import io.kvoy.server.config.ModelPool.KvEvents;
import io.kvoy.server.config.ModelPool.StaticWorker;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** The rules that no single field can check: what must differ, fit together or exist. */
final class ConfigRules {
  private final Problems problems;
  private final Binder binder;

  /**
   * A document that was bound without problems.
   *
   * @param root its place in the file
   * @param node its text, for what was left out
   */
  record Bound<R>(R value, Binder.Place root, YamlNode node) {}

  /** Something that must be unique, where it was first seen. */
  private record Seen(String owner, int line) {}

  ConfigRules(Problems problems, Binder binder) {
    this.problems = problems;
    this.binder = binder;
  }

  /** Rules of the process settings. */
  void check(Bound<KvoyConfig> config) {
    Map<String, ListenAddress> doors = doors(config.value().listen());
    List<Map.Entry<String, ListenAddress>> seen = new ArrayList<>();
    for (Map.Entry<String, ListenAddress> door : doors.entrySet()) {
      for (Map.Entry<String, ListenAddress> other : seen) {
        if (collide(door.getValue(), other.getValue())) {
          Binder.Place listen = config.root().field("listen");
          YamlNode otherPlace = binder.placeOf(listen.field(other.getKey()), config.node());
          problems.add(
              Kind.PORT_COLLISION,
              "%s (%s) and %s (%s) listen on the same port"
                  .formatted(other.getKey(), other.getValue(), door.getKey(), door.getValue()),
              listen.text(),
              binder.placeOf(listen.field(door.getKey()), otherPlace),
              "give one of them another port, or turn it off");
        }
      }
      seen.add(door);
    }
    if (config.value().listen().xds() instanceof ListenAddress.Tcp) {
      checkEnvoy(config);
    }
    checkStaleness(
        config.value().defaults().scrapeInterval(),
        config.value().defaults().staleAfter(),
        config.root().field("defaults"),
        config.node());
  }

  private void checkEnvoy(Bound<KvoyConfig> config) {
    try {
      KvoyConfig whole = config.value();
      whole.envoy().options(whole.listen(), whole.tls(), whole.limits());
    } catch (IllegalArgumentException wrong) {
      Binder.Place at = config.root().field("envoy");
      problems.add(
          Kind.ENVOY_CONFLICT,
          String.valueOf(wrong.getMessage()),
          at.text(),
          binder.placeOf(at, config.node()),
          "");
    }
  }

  /** Envoy knows workers by address alone. */
  private void checkAddressForEnvoy(StaticWorker worker, Binder.Place at, YamlNode node) {
    if (!EnvoyBootstrap.isAddress(worker.address())) {
      problems.add(
          Kind.ENVOY_CONFLICT,
          "worker address '" + worker.address() + "' is a name",
          at.text(),
          binder.placeOf(at.field("address"), node),
          "write the IP address: over xDS (listen.xds) Envoy compares addresses");
    }
  }

  /** Rules of all pools together. */
  void check(List<Bound<ModelPool>> pools, KvoyConfig config) {
    Map<String, Seen> poolNames = new HashMap<>();
    Map<String, Seen> modelNames = new HashMap<>();
    Map<String, Seen> workerNames = new HashMap<>();
    Map<String, Seen> addresses = new HashMap<>();
    Map<String, Seen> eventSources = new HashMap<>();
    Seen takesAll = null;
    for (Bound<ModelPool> bound : pools) {
      ModelPool pool = bound.value();
      unique(
          Kind.DUPLICATE_POOL_NAME,
          "pool name",
          pool.name(),
          "ModelPool.metadata.name",
          bound.node(),
          "another pool",
          poolNames);
      String owner = "pool '" + pool.name() + "'";
      if (pool.models().isEmpty()) {
        if (takesAll == null) {
          takesAll = new Seen(owner, bound.node().line());
        } else {
          problems.add(
              Kind.DUPLICATE_MODEL,
              owner + " and " + takesAll.owner() + " both take every model",
              bound.root().text(),
              bound.node(),
              "list 'models' in one of them");
        }
      }
      names(pool.models(), "models", "model", bound, owner, modelNames);
      names(pool.adapters(), "adapters", "adapter", bound, owner, modelNames);
      checkTokenizer(bound);
      checkStaleness(pool.scrapeInterval(), pool.staleAfter(), bound.root(), bound.node());
      for (int i = 0; i < pool.workers().size(); i++) {
        StaticWorker worker = pool.workers().get(i);
        Binder.Place at = bound.root().field("workers").item(i);
        YamlNode node = binder.placeOf(at, bound.node());
        String workerOwner = "worker '" + worker.name() + "' of " + owner;
        unique(
            Kind.DUPLICATE_WORKER_NAME,
            "worker name",
            worker.name(),
            at.text(),
            binder.placeOf(at.field("name"), node),
            workerOwner,
            workerNames);
        unique(
            Kind.DUPLICATE_WORKER_ADDRESS,
            "worker address",
            worker.address().toString(),
            at.text(),
            binder.placeOf(at.field("address"), node),
            workerOwner,
            addresses);
        if (config.listen().xds() instanceof ListenAddress.Tcp) {
          checkAddressForEnvoy(worker, at, node);
        }
        if (worker.kvEvents().isPresent()) {
          check(
              worker.kvEvents().get(),
              at.field("kvEvents"),
              node,
              workerOwner,
              eventSources,
              config);
        }
      }
    }
  }

  /** A pool's tokens have one source, and a worker renders with a template of its own. */
  private void checkTokenizer(Bound<ModelPool> bound) {
    ModelPool pool = bound.value();
    List<String> sources = new ArrayList<>();
    pool.tokenizer().ifPresent(_ -> sources.add("tokenizer"));
    pool.tokenizerHub().ifPresent(_ -> sources.add("tokenizerHub"));
    pool.tokenizerWorker().ifPresent(_ -> sources.add("tokenizerWorker"));
    if (sources.size() > 1) {
      conflictOfTokenizers(
          "'" + String.join("' and '", sources) + "' are both given",
          sources.getLast(),
          bound,
          "a pool's tokens have one source; remove the others");
    }
    if (pool.chatTemplate().isPresent()
        && (pool.tokenizerWorker().isPresent() || sources.isEmpty())) {
      conflictOfTokenizers(
          "'chatTemplate' has no effect here",
          "chatTemplate",
          bound,
          sources.isEmpty()
              ? "give the pool a 'tokenizer' or 'tokenizerHub', or remove it"
              : "workers render with a template of their own; remove it");
    }
  }

  private void conflictOfTokenizers(
      String what, String field, Bound<ModelPool> bound, String advice) {
    problems.add(
        Kind.TOKENIZER_CONFLICT,
        what,
        bound.root().text(),
        binder.placeOf(bound.root().field(field), bound.node()),
        advice);
  }

  /** Files that the pools name; not part of {@link #check} as another machine may have them. */
  void checkFiles(List<Bound<ModelPool>> pools) {
    for (Bound<ModelPool> bound : pools) {
      bound
          .value()
          .tokenizer()
          .filter(folder -> !Files.isRegularFile(folder.resolve("tokenizer.json")))
          .ifPresent(folder -> missing("tokenizer", folder.resolve("tokenizer.json"), bound));
      bound
          .value()
          .chatTemplate()
          .filter(file -> !Files.isRegularFile(file))
          .ifPresent(file -> missing("chatTemplate", file, bound));
    }
  }

  private void missing(String field, Path file, Bound<ModelPool> bound) {
    problems.add(
        Kind.FILE_NOT_FOUND,
        field + " needs the file '" + file + "', which is not there",
        bound.root().text(),
        binder.placeOf(bound.root().field(field), bound.node()),
        "relative paths are read from KvoyConfig tokenizers.root, else from the folder of this"
            + " file");
  }

  private void names(
      List<String> names,
      String field,
      String what,
      Bound<ModelPool> bound,
      String owner,
      Map<String, Seen> seen) {
    for (int i = 0; i < names.size(); i++) {
      Binder.Place at = bound.root().field(field).item(i);
      unique(
          Kind.DUPLICATE_MODEL,
          what,
          names.get(i),
          bound.root().field(field).text(),
          binder.placeOf(at, bound.node()),
          owner,
          seen);
    }
  }

  private void unique(
      Kind kind,
      String what,
      String value,
      String where,
      YamlNode place,
      String owner,
      Map<String, Seen> seen) {
    Seen first = seen.putIfAbsent(value, new Seen(owner, place.line()));
    if (first != null) {
      problems.add(
          kind,
          what + " '" + value + "' is taken",
          where,
          place,
          "by " + first.owner() + " at line " + first.line());
    }
  }

  private void check(
      KvEvents events,
      Binder.Place at,
      YamlNode worker,
      String owner,
      Map<String, Seen> sources,
      KvoyConfig config) {
    YamlNode here = binder.placeOf(at, worker);
    YamlNode endpointPlace = binder.placeOf(at.field("endpoint"), here);
    if (events.discover()) {
      if (events.endpoint().isPresent() || events.replayEndpoint().isPresent()) {
        conflict(
            "'discover' and an endpoint are both given", at, endpointPlace, "remove one of them");
      }
      if (events.bind()) {
        conflict(
            "'bind' needs an 'endpoint' to bind",
            at,
            binder.placeOf(at.field("bind"), here),
            "write the endpoint and remove 'discover'");
      }
      return;
    }
    if (events.endpoint().isEmpty()) {
      conflict(
          "'endpoint' is missing",
          at,
          here,
          "write the worker's publisher endpoint, or 'discover: true'");
      return;
    }
    String endpoint = events.endpoint().get();
    if (!hasPortPerRank(endpoint, events, at, endpointPlace)) {
      return;
    }
    if (!events.bind() && endpoint.startsWith("tcp://*")) {
      conflict(
          "'*' in '" + endpoint + "' is where the worker binds",
          at,
          endpointPlace,
          "write the worker's address in its place, or 'bind: true' when Kvoy is to bind");
    }
    if (events.replayEndpoint().isPresent()) {
      String replay = events.replayEndpoint().get();
      YamlNode replayPlace = binder.placeOf(at.field("replayEndpoint"), here);
      if (hasPortPerRank(replay, events, at, replayPlace) && replay.startsWith("tcp://*")) {
        conflict(
            "'*' in '" + replay + "' is where the worker binds",
            at,
            replayPlace,
            "write the worker's address in its place");
      }
    }
    for (int rank = 0; rank < events.dataParallelRanks(); rank++) {
      unique(
          Kind.DUPLICATE_KV_EVENTS,
          "KV event endpoint",
          shifted(endpoint, rank),
          at.text(),
          endpointPlace,
          owner,
          sources);
      if (events.bind()) {
        checkBound(shifted(endpoint, rank), at, endpointPlace, config);
      }
    }
  }

  /** Every rank needs a port of its own. */
  private boolean hasPortPerRank(
      String endpoint, KvEvents events, Binder.Place at, YamlNode place) {
    Optional<Integer> port = port(endpoint);
    int last = port.orElse(1) + events.dataParallelRanks() - 1;
    if (port.isPresent() && (port.get() < 1 || last > 65_535)) {
      conflict(
          "ports %d to %d of '%s' are not all within 1 to 65535"
              .formatted(port.get(), last, endpoint),
          at,
          place,
          "rank r uses port + r");
      return false;
    }
    if (port.isEmpty() && events.dataParallelRanks() > 1) {
      conflict(
          "'" + endpoint + "' has no port to count ranks from",
          at,
          place,
          "use tcp:// with several dataParallelRanks");
      return false;
    }
    return true;
  }

  private void checkBound(String endpoint, Binder.Place at, YamlNode place, KvoyConfig config) {
    int port = port(endpoint).orElse(0);
    for (Map.Entry<String, ListenAddress> door : doors(config.listen()).entrySet()) {
      if (port != 0
          && door.getValue() instanceof ListenAddress.Tcp(String _, int doorPort)
          && doorPort == port) {
        problems.add(
            Kind.PORT_COLLISION,
            "'%s' would be bound on the port of listen.%s".formatted(endpoint, door.getKey()),
            at.text(),
            place,
            "give one of them another port");
      }
    }
  }

  private void conflict(String what, Binder.Place at, YamlNode place, String advice) {
    problems.add(Kind.KV_EVENTS_CONFLICT, what, at.text(), place, advice);
  }

  private void checkStaleness(
      Duration scrapeInterval, Duration staleAfter, Binder.Place at, YamlNode node) {
    if (staleAfter.compareTo(scrapeInterval) < 0) {
      YamlNode scrapePlace = binder.placeOf(at.field("scrapeInterval"), node);
      problems.add(
          Kind.INTERVAL_CONFLICT,
          "staleAfter (%s) is shorter than scrapeInterval (%s)"
              .formatted(Durations.write(staleAfter), Durations.write(scrapeInterval)),
          at.text(),
          binder.placeOf(at.field("staleAfter"), scrapePlace),
          "figures would always count as unknown");
    }
  }

  private static Map<String, ListenAddress> doors(KvoyConfig.Listen listen) {
    Map<String, ListenAddress> doors = new LinkedHashMap<>();
    for (SectionShape.Field field : SectionShape.of(KvoyConfig.Listen.class).fields()) {
      if (field.valueIn(listen) instanceof ListenAddress address) {
        doors.put(field.name(), address);
      }
    }
    return doors;
  }

  private static boolean collide(ListenAddress a, ListenAddress b) {
    return a instanceof ListenAddress.Tcp(String hostA, int portA)
        && b instanceof ListenAddress.Tcp(String hostB, int portB)
        && portA == portB
        && portA != 0
        && (hostA.equals(hostB) || isWildcard(hostA) || isWildcard(hostB));
  }

  private static boolean isWildcard(String host) {
    return host.equals("0.0.0.0") || host.equals("::");
  }

  /** The port of a tcp endpoint. */
  private static Optional<Integer> port(String endpoint) {
    return endpoint.startsWith("tcp://")
        ? Optional.of(Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1)))
        : Optional.empty();
  }

  /** The endpoint of a data parallel rank: port + rank (vLLM 0.32, distributed/kv_events.py). */
  private static String shifted(String endpoint, int rank) {
    Optional<Integer> port = port(endpoint);
    return port.isEmpty() || rank == 0
        ? endpoint
        : endpoint.substring(0, endpoint.lastIndexOf(':') + 1) + (port.get() + rank);
  }

  /** The defaults when there is no document of this kind. */
  static KvoyConfig orDefaults(@Nullable Bound<KvoyConfig> config) {
    return config == null ? KvoyConfig.allDefaults() : config.value();
  }
}
