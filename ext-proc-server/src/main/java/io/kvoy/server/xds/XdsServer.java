// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.xds;

import io.envoyproxy.controlplane.cache.NodeGroup;
import io.envoyproxy.controlplane.cache.SimpleCache;
import io.envoyproxy.envoy.config.core.v3.Node;
import io.grpc.Server;
import io.grpc.netty.NettyServerBuilder;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.FleetMember;
import io.kvoy.envoy.XdsResources;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.ServerMeters.XdsType;
import io.netty.handler.ssl.SslContext;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The xDS port: ADS, state of the world and delta.
 *
 * <p>A change of fleet or configuration is published at once, those that follow within {@link
 * #DEBOUNCE} together at its end, each time as one snapshot made from what is true at that moment:
 * the last of two changes always wins. Nothing is published before every worker was looked at once,
 * or {@link #SYNC_PATIENCE} has passed, so that a Kvoy that has just started takes no worker away
 * from a proxy; until then a proxy keeps what it has.
 *
 * <p>Every Envoy gets the same; what differs by tenant would be a {@link NodeGroup} of its own.
 *
 * <p>All of it, gRPC callbacks included, runs on one thread: the library's streams are not safe
 * against an answer and a publication at the same time.
 */
public final class XdsServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(XdsServer.class);

  /** Long enough to catch a burst, short against the start of a worker. */
  static final Duration DEBOUNCE = Duration.ofMillis(10);

  /** Between two looks at who has drained. */
  private static final Duration TICK = Duration.ofMillis(500);

  /** As for readiness: a worker that cannot be probed must not hold back the others. */
  private static final Duration SYNC_PATIENCE = Duration.ofSeconds(10);

  /** Requests are names and versions; a few kilobytes. */
  private static final int MAX_MESSAGE_BYTES = 1 << 20;

  /** Envoy opens one ADS stream per connection; and one more while it replaces it. */
  private static final int MAX_CALLS_PER_CONNECTION = 8;

  /** Envoys ping an idle connection every 10 s, see the bootstrap. */
  private static final Duration SHORTEST_PING_INTERVAL = Duration.ofSeconds(5);

  private static final Duration CLOSE_PATIENCE = Duration.ofSeconds(2);

  private static final String EVERYBODY = "";

  /** The one group of proxies. */
  private static final class Cache extends SimpleCache<String, EnvoySnapshot> {
    Cache() {
      super(
          new NodeGroup<>() {
            @Override
            public String hash(Node node) {
              return EVERYBODY;
            }
          });
    }
  }

  private record Published(EnvoySnapshot snapshot, List<FleetMember> members) {}

  private final ScheduledExecutorService thread =
      Executors.newSingleThreadScheduledExecutor(
          task -> Thread.ofPlatform().name("kvoy-xds").daemon().unstarted(task));
  private final Cache cache = new Cache();
  private final AtomicBoolean scheduled = new AtomicBoolean();
  private final Supplier<EnvoyBootstrap> options;
  private final Membership membership;
  private final Peers peers;
  private final ServerMeters meters;
  private final LongSupplier nanoClock;
  private final long startNanos;
  private final Server server;

  /** When a publication was last looked into; written on the thread, read by those who schedule. */
  private volatile long lookedAtNanos;

  /** Written on the thread, read by the debug page. */
  private volatile @Nullable Published published;

  private XdsServer(
      InetSocketAddress address,
      Optional<SslContext> tls,
      Supplier<EnvoyBootstrap> options,
      Membership membership,
      ServerMeters meters,
      LongSupplier nanoClock) {
    this.options = options;
    this.membership = membership;
    this.meters = meters;
    this.nanoClock = nanoClock;
    this.startNanos = nanoClock.getAsLong();
    this.lookedAtNanos = System.nanoTime() - DEBOUNCE.toNanos();
    this.peers = new Peers(meters);
    NettyServerBuilder door = NettyServerBuilder.forAddress(address);
    tls.ifPresent(door::sslContext);
    this.server =
        door.executor(thread)
            .maxInboundMessageSize(MAX_MESSAGE_BYTES)
            .maxConcurrentCallsPerConnection(MAX_CALLS_PER_CONNECTION)
            .permitKeepAliveTime(SHORTEST_PING_INTERVAL.toMillis(), TimeUnit.MILLISECONDS)
            .permitKeepAliveWithoutCalls(true)
            .addService(new Ads(peers, cache, EVERYBODY).getAggregatedDiscoveryServiceImpl())
            .build();
  }

  /**
   * Binds the port and follows the fleet.
   *
   * @param tls plaintext when empty
   * @param options of the proxies, asked for at each publication
   * @param drainPatience longest time for which a worker that left is kept for its answers
   * @throws IOException when the port is taken; nothing is left running
   */
  public static XdsServer start(
      InetSocketAddress address,
      Optional<SslContext> tls,
      Supplier<EnvoyBootstrap> options,
      FleetRegistry registry,
      InFlightLedger ledger,
      Supplier<Duration> drainPatience,
      ServerMeters meters,
      LongSupplier nanoClock)
      throws IOException {
    Membership membership = new Membership(ledger, nanoClock, drainPatience);
    XdsServer started = new XdsServer(address, tls, options, membership, meters, nanoClock);
    try {
      started.server.start();
    } catch (IOException e) {
      started.close();
      throw e;
    }
    meters.bindXds(started.peers::count, started.peers::rejecting);
    registry.listen(
        change -> {
          membership.fleetChanged(change);
          started.changed();
        });
    membership.startWith(registry.fleet());
    var _ =
        started.thread.scheduleWithFixedDelay(
            started::tick, 0, TICK.toMillis(), TimeUnit.MILLISECONDS);
    return started;
  }

  /** The bound port; differs from the setting when that was 0. */
  public int port() {
    return server.getPort();
  }

  /** Fleet or options have changed. Any thread; returns at once. */
  public void changed() {
    if (scheduled.compareAndSet(false, true)) {
      try {
        var _ =
            thread.schedule(
                () -> {
                  // Before the look at the fleet: what changes during it is looked at again.
                  scheduled.set(false);
                  publish();
                },
                Math.max(0, lookedAtNanos + DEBOUNCE.toNanos() - System.nanoTime()),
                TimeUnit.NANOSECONDS);
      } catch (RejectedExecutionException _) {
        // Closed.
      }
    }
  }

  /** Changes are told; time passing is not. */
  private void tick() {
    if (published == null || membership.isDraining()) {
      publish();
    }
  }

  private void publish() {
    try {
      doPublish();
    } catch (RuntimeException bug) {
      LOG.error("xds_publish_failed", bug);
    }
  }

  private void doPublish() {
    lookedAtNanos = System.nanoTime();
    Published before = published;
    if (before == null && !membership.isProbed() && !isPatienceOver()) {
      return;
    }
    List<FleetMember> members = membership.members();
    EnvoySnapshot snapshot = new EnvoySnapshot(XdsResources.of(options.get(), members));
    if (before != null && before.snapshot().version().equals(snapshot.version())) {
      return;
    }
    published = new Published(snapshot, members);
    cache.setSnapshot(EVERYBODY, snapshot);
    meters.xdsSnapshot();
    LOG.info(
        "xds_published version={} members={} peers={}",
        snapshot.version(),
        members.size(),
        peers.count());
  }

  private boolean isPatienceOver() {
    return nanoClock.getAsLong() - startNanos >= SYNC_PATIENCE.toNanos();
  }

  /** The present state as JSON for people: what was published, and what proxies said to it. */
  public Map<String, Object> page() {
    Published present = published;
    Map<String, Object> page = new LinkedHashMap<>();
    page.put("version", present == null ? "" : present.snapshot().version());
    Map<String, String> members = new TreeMap<>();
    if (present != null) {
      present.members().forEach(m -> members.put(m.endpoint().toString(), word(m.standing())));
    }
    page.put("members", members);
    List<Object> proxies = new ArrayList<>();
    for (Peers.Peer peer : peers.connected()) {
      Map<String, Object> proxy = new LinkedHashMap<>();
      proxy.put("node", peer.node());
      proxy.put("protocol", peer.isDelta() ? "delta" : "state_of_the_world");
      for (XdsType type : XdsType.values()) {
        Peers.Said said = peer.said().getOrDefault(type, Peers.Said.NOTHING);
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("accepted", said.version());
        if (!said.rejectedVersion().isEmpty()) {
          shown.put("rejected", said.rejectedVersion());
          shown.put("problem", said.problem());
        }
        proxy.put(word(type), shown);
      }
      proxies.add(proxy);
    }
    page.put("proxies", proxies);
    return page;
  }

  private static String word(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }

  /** Proxies keep what they have. */
  @Override
  public void close() {
    server.shutdownNow();
    try {
      // Its last callbacks run on the thread.
      if (!server.awaitTermination(CLOSE_PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
        LOG.warn("xds_close_slow patience={}", CLOSE_PATIENCE);
      }
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
    thread.shutdownNow();
  }
}
