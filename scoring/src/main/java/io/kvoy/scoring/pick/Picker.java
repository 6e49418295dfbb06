// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerHealth;
import io.kvoy.scoring.latency.Coefficients;
import io.kvoy.scoring.latency.Features;
import io.kvoy.scoring.latency.Prediction;
import io.kvoy.scoring.latency.Prediction.Source;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.Reservation;
import io.kvoy.scoring.load.ScrapedLoad;
import io.kvoy.scoring.load.Work;
import io.kvoy.scoring.load.WorkerLoad;
import io.kvoy.scoring.pick.Considered.Standing;
import io.kvoy.scoring.pick.Pick.Absence;
import io.kvoy.scoring.pick.Pick.NoCandidate;
import io.kvoy.scoring.pick.Pick.Picked;
import io.kvoy.scoring.pick.Pick.Reason;
import io.kvoy.scoring.pick.Pick.Saturated;
import io.kvoy.scoring.pick.PickRequest.CacheKnowledge;
import io.kvoy.scoring.pick.PickRequest.Tokens;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Chooses the worker with the lowest predicted time to first token and books the request on it, in
 * one step.
 *
 * <ol>
 *   <li><b>Who is open.</b> Unready and draining workers are out. Ejected ones and those that have
 *       just answered 429/503 are out while anybody else is open.
 *   <li><b>What each would take.</b> Own work in flight and scraped foreign work ahead, uncached
 *       tokens, running decodes, in milliseconds by each worker's own coefficients.
 *   <li><b>Ties.</b> Differences within the noise decide nothing: the session's worker, the least
 *       busy one, the one picked longest ago.
 *   <li><b>Booking.</b> The ledger takes the booking only if nobody else was booked on that worker
 *       since its counters were read; else its counters are read again. A burst therefore spreads
 *       although every request of it starts from the same state.
 * </ol>
 *
 * <p>Any thread; no lock, no I/O. Holds no state of its own but a counter and the typical prompt
 * size per pool.
 */
public final class Picker {
  /** Bookings tried on a changed state before one is made whatever others do. */
  private static final int MAX_RACES = 8;

  /** A full worker is taken to give back all its tokens within this at the latest. */
  private static final double SLOWEST_TURNOVER_SECONDS = 60;

  /** Weight of one request in the typical prompt size of its pool. */
  private static final double MIX_WEIGHT = 1.0 / 32;

  /** Typical uncached prompt size before the first request. */
  private static final double FIRST_MIX_TOKENS = 512;

  /** Part of a cache that shared prefixes may take; the rest is for what nobody shares. */
  private static final double COPIES_SHARE = 0.75;

  private final FleetRegistry registry;
  private final LoadBook book;
  private final InFlightLedger ledger;
  private final TtftPredictor predictor;
  private final PickSettings settings;

  /** Bounds of what a prediction's noise is taken for when a prefix is to be left. */
  private static final double MIN_NOISE_SHARE = 0.1;

  private static final double MAX_NOISE_SHARE = 0.5;

  /** A second copy of a prefix is not worth less than this. */
  private static final double IDLE_HOLDER_FLOOR_MILLIS = 20;

  private final LongSupplier nanoClock;
  private final AtomicLong picks = new AtomicLong();

  /** Typical uncached tokens of a request, by pool; a lost update is of no importance. */
  private final Map<String, Double> promptMix = new ConcurrentHashMap<>();

  private final AdapterMemory adapters = new AdapterMemory();

  /** Demand for shared prefixes, by pool. */
  private final Map<String, PrefixDemand> demands = new ConcurrentHashMap<>();

  public Picker(
      FleetRegistry registry,
      LoadBook book,
      InFlightLedger ledger,
      TtftPredictor predictor,
      PickSettings settings,
      LongSupplier nanoClock) {
    this.registry = registry;
    this.book = book;
    this.ledger = ledger;
    this.predictor = predictor;
    this.settings = settings;
    this.nanoClock = nanoClock;
  }

  /** One pick's work sheet: parallel arrays by candidate index. */
  private static final class Sheet {
    final Considered considered;
    final WorkerLoad[] loads;
    final long[] stamps;
    final double[] aheadTokens;
    final double[] decoding;
    final double[] capacityMillis;
    final double[] adapterMillis;
    final double[] loadMillis;
    final boolean[] gaugesKnown;
    final Coefficients[] coefficients;
    final int[] held;
    final int[] pending;
    int mostExpected;
    long prefixKey;

    /** Uncached tokens of a request of this pool whose prompt is not known. */
    double typicalTokens;

    boolean hasRoomForCopies;
    boolean anyGauges;
    boolean allGauges = true;
    double bestKnownLoadMillis = Double.POSITIVE_INFINITY;

    Sheet(List<Worker> candidates) {
      int n = candidates.size();
      considered = new Considered(candidates);
      loads = new WorkerLoad[n];
      stamps = new long[n];
      aheadTokens = new double[n];
      decoding = new double[n];
      capacityMillis = new double[n];
      adapterMillis = new double[n];
      loadMillis = new double[n];
      gaugesKnown = new boolean[n];
      coefficients = new Coefficients[n];
      held = new int[n];
      pending = new int[n];
    }

    boolean isOpen(int i) {
      return considered.standings[i] == Standing.OPEN;
    }

    /** Milliseconds that the choice goes by. */
    double score(int i) {
      return considered.predictedMillis[i] + considered.priceMillis[i];
    }
  }

  /**
   * Picks and books.
   *
   * @param request what for
   * @param fleet the snapshot that the request goes by
   */
  public Pick pick(PickRequest request, Fleet fleet) {
    return pick(request, fleet, false);
  }

  /** As {@link #pick}, for a request that nobody could take before: it is no further demand. */
  public Pick pickAgain(PickRequest request, Fleet fleet) {
    return pick(request, fleet, true);
  }

  private Pick pick(PickRequest request, Fleet fleet, boolean isKnown) {
    List<Worker> candidates = request.candidates();
    int n = candidates.size();
    if (n == 0) {
      return new NoCandidate(Absence.NO_WORKERS, Considered.NOBODY);
    }
    long now = nanoClock.getAsLong();
    Set<Degradation> degradations = EnumSet.noneOf(Degradation.class);
    var sheet = new Sheet(candidates);
    sheet.typicalTokens = typicalTokens(candidates.getFirst().pool());
    int trial = standings(sheet, fleet, now, degradations);
    if (trial == NOBODY) {
      return new NoCandidate(Absence.NONE_READY, sheet.considered);
    }

    knowledge(request, degradations);
    boolean blind = ledger.isBlind();
    caches(sheet, request, isKnown, now);
    for (int i = 0; i < n; i++) {
      if (sheet.isOpen(i)) {
        evaluate(sheet, i, request, blind, now);
      }
    }
    liftUnknown(sheet, degradations);
    if (blind) {
      degradations.add(sheet.anyGauges ? Degradation.LEDGER_BLIND : Degradation.ROUND_ROBIN);
    }
    boolean inTurn = blind && !sheet.anyGauges;

    long turn = picks.getAndIncrement();
    for (int race = 0; ; race++) {
      int chosen;
      Reason reason;
      if (trial >= 0) {
        chosen = trial;
        reason = Reason.TRIAL;
      } else if (inTurn) {
        chosen = longestAgo(sheet);
        reason = Reason.TURN;
      } else {
        int best = keepPrefix(sheet, best(sheet));
        if (isTooLate(sheet, best, request)) {
          int soonest = soonest(sheet);
          if (!mayMove(sheet) || isTooLate(sheet, soonest, request)) {
            double overMillis = latestMillis(sheet, soonest) - request.limitMillis();
            return new Saturated(
                sheet.considered.predictedMillis[soonest],
                Duration.ofMillis((long) Math.ceil(overMillis)),
                isTooLongAlone(sheet, request),
                sheet.considered);
          }
          best = soonest;
        }
        int explored = race == 0 ? explore(sheet, best, turn) : -1;
        chosen = explored >= 0 ? explored : breakTie(sheet, best, request.preferred());
        reason = reason(sheet, best, chosen, explored, request.preferred());
      }
      Work work = work(request, sheet, chosen);
      Reservation reservation =
          race < MAX_RACES
              ? ledger.tryReserve(sheet.loads[chosen], sheet.stamps[chosen], work)
              : ledger.reserve(candidates.get(chosen), work);
      if (reservation != null) {
        return picked(request, sheet, chosen, reason, reservation, degradations);
      }
      // Somebody was booked there first; its counters count, the others are still good enough.
      evaluate(sheet, chosen, request, blind, now);
      lift(sheet, chosen);
    }
  }

  /** Nobody is open. */
  private static final int NOBODY = -2;

  /** Somebody is open and nobody is to be tried. */
  private static final int NO_TRIAL = -1;

  /** Fills in who is open; returns the index of a worker to try, or one of the two above. */
  private int standings(Sheet sheet, Fleet fleet, long now, Set<Degradation> degradations) {
    Standing[] standings = sheet.considered.standings;
    List<Worker> workers = sheet.considered.workers;
    int open = 0;
    int ejected = 0;
    int heldOff = 0;
    for (int i = 0; i < standings.length; i++) {
      Worker worker = workers.get(i);
      WorkerHealth health = fleet.health(worker);
      if (health.isReady()) {
        boolean held = registry.isHeldOff(worker, now);
        standings[i] = held ? Standing.HELD_OFF : Standing.OPEN;
        open += held ? 0 : 1;
        heldOff += held ? 1 : 0;
      } else {
        standings[i] = health.isEjected() ? Standing.EJECTED : Standing.NOT_READY;
        ejected += health.isEjected() ? 1 : 0;
      }
    }
    if (open == 0 && heldOff == 0 && ejected == 0) {
      return NOBODY;
    }
    if (open == 0) {
      Standing lastResort = heldOff > 0 ? Standing.HELD_OFF : Standing.EJECTED;
      degradations.add(heldOff > 0 ? Degradation.ALL_HELD_OFF : Degradation.ALL_EJECTED);
      for (int i = 0; i < standings.length; i++) {
        if (standings[i] == lastResort) {
          standings[i] = Standing.OPEN;
        }
      }
      return NO_TRIAL;
    }
    if (ejected > 0) {
      for (int i = 0; i < standings.length; i++) {
        if (standings[i] == Standing.EJECTED && registry.grantTrial(workers.get(i), now)) {
          standings[i] = Standing.OPEN;
          return i;
        }
      }
    }
    return NO_TRIAL;
  }

  private static void knowledge(PickRequest request, Set<Degradation> degradations) {
    switch (request.tokens()) {
      case EXACT -> {}
      case ESTIMATED -> degradations.add(Degradation.ESTIMATED_TOKENS);
      case UNKNOWN -> degradations.add(Degradation.NO_TOKENS);
    }
    switch (request.cacheKnowledge()) {
      case EVENTS -> {}
      case OWN_ROUTING -> degradations.add(Degradation.NO_CACHE_EVENTS);
      case NONE -> degradations.add(Degradation.NO_CACHE_KNOWLEDGE);
    }
  }

  /** Computes one candidate's milliseconds from fresh counters. */
  private void evaluate(Sheet sheet, int i, PickRequest request, boolean blind, long now) {
    Worker worker = sheet.considered.workers.get(i);
    WorkerLoad load = ledger.load(worker);
    sheet.loads[i] = load;
    sheet.stamps[i] = load.stamp();
    Coefficients coefficients = predictor.coefficients(worker, now);
    sheet.coefficients[i] = coefficients;
    double typical = sheet.typicalTokens;
    double uncached;
    int cached;
    if (request.tokens() == Tokens.UNKNOWN) {
      cached = 0;
      uncached = typical;
    } else {
      cached = sheet.held[i] + (int) (settings.pendingShare() * sheet.pending[i]);
      uncached = request.promptTokens() - (double) cached;
    }

    double ahead = blind ? 0 : ownAhead(load, coefficients, now);
    double decoding = blind ? 0 : load.decoding();
    ScrapedLoad scraped = book.fresh(worker, now);
    if (scraped != null) {
      ahead += typical * (blind ? scraped.gauges().waiting().value() : scraped.foreignWaiting());
      decoding += blind ? scraped.gauges().running().value() : scraped.foreignRunning();
      sheet.anyGauges = true;
    } else {
      sheet.allGauges = false;
    }
    sheet.gaugesKnown[i] = scraped != null;
    sheet.considered.cachedTokens[i] = cached;
    sheet.aheadTokens[i] = ahead;
    sheet.decoding[i] = decoding;
    double capacity = blind ? 0 : capacityMillis(sheet, i, load, scraped, request);
    String adapter = request.adapter();
    double adapterMillis = 0;
    if (adapter != null) {
      adapterMillis = adapters.loadMillis(adapter, worker, scraped, now);
      capacity += AdapterMemory.placeMillis(adapter, scraped, load);
    }
    sheet.adapterMillis[i] = adapterMillis;
    sheet.capacityMillis[i] = capacity;
    double total =
        coefficients.totalMillis(uncached, cached, ahead, decoding, capacity) + adapterMillis;
    double alone = coefficients.totalMillis(uncached, cached, 0, 0, 0) + adapterMillis;
    sheet.considered.priceMillis[i] =
        sheet.hasRoomForCopies
            // Whoever waits for a copy in the making gets in the way of those that have one.
            ? coefficients.perTokenMillis() * (cached - sheet.held[i])
            : settings.workPrice()
                * load.prefillBusyShare()
                * coefficients.ownPrefillMillis(uncached, cached);
    sheet.considered.predictedMillis[i] = total;
    sheet.loadMillis[i] = total - alone;
    if (scraped != null) {
      sheet.bestKnownLoadMillis = Math.min(sheet.bestKnownLoadMillis, total - alone);
    }
  }

  /** What each open candidate holds of the prompt, and whether another copy of that is welcome. */
  private void caches(Sheet sheet, PickRequest request, boolean isKnown, long now) {
    if (request.tokens() == Tokens.UNKNOWN || request.cacheKnowledge() == CacheKnowledge.NONE) {
      return;
    }
    CachedTokens cached = request.cached();
    int prompt = request.promptTokens();
    int most = 0;
    for (int i = 0; i < sheet.held.length; i++) {
      if (sheet.isOpen(i)) {
        Worker worker = sheet.considered.workers.get(i);
        int held = Math.clamp(cached.anywhereOn(worker), 0, prompt);
        int expected = Math.clamp(cached.expectedOn(worker), held, prompt);
        sheet.held[i] = (int) Math.clamp(cached.worthOn(worker), 0.0, held);
        sheet.pending[i] = expected - held;
        most = Math.max(most, expected);
      }
    }
    sheet.mostExpected = most;
    if (most > 0) {
      sheet.prefixKey = cached.prefixKey(most);
      String pool = request.candidates().getFirst().pool();
      PrefixDemand demand = demands.computeIfAbsent(pool, _ -> new PrefixDemand());
      double uses =
          isKnown ? demand.uses(sheet.prefixKey, now) : demand.used(sheet.prefixKey, most, now);
      sheet.hasRoomForCopies =
          uses >= PrefixDemand.SHARED_FROM_USES && fitsEverywhere(sheet, demand, now);
    }
  }

  /** Whether each open worker could hold all shared prefixes beside its requests. */
  private boolean fitsEverywhere(Sheet sheet, PrefixDemand demand, long now) {
    double shared = demand.sharedTokens(now);
    for (int i = 0; i < sheet.held.length; i++) {
      if (sheet.isOpen(i)) {
        Worker worker = sheet.considered.workers.get(i);
        ScrapedLoad scraped = book.fresh(worker, now);
        double capacity = scraped == null ? 0 : scraped.gauges().kvCapacityTokens();
        if (shared > COPIES_SHARE * capacity - ledger.load(worker).privateTokens()) {
          return false;
        }
      }
    }
    return true;
  }

  /**
   * Wait for room. A worker whose KV blocks are all in use takes the next request only when others
   * have ended, however quick its prefill is: tokens that are wanting ÷ tokens given back per
   * millisecond. Engines take requests in turn, so what those before need comes first. The prompt
   * takes room whether it is cached or not, but for what a request in flight uses anyway.
   */
  private static double capacityMillis(
      Sheet sheet, int i, WorkerLoad load, @Nullable ScrapedLoad scraped, PickRequest request) {
    if (scraped == null || !scraped.kvDemandTokens().isKnown()) {
      return 0;
    }
    boolean isKnown = request.tokens() != Tokens.UNKNOWN;
    double capacity = scraped.gauges().kvCapacityTokens();
    double sinceScrape = load.roomTokens() - (double) scraped.ownRoomTokens();
    double prompt = isKnown ? request.promptTokens() : sheet.typicalTokens;
    double wanting = scraped.kvDemandTokens().value() + sinceScrape + prompt - capacity;
    if (wanting > 0 && isKnown) {
      wanting -= inUseTokens(sheet, i, load);
    }
    if (wanting <= 0) {
      return 0;
    }
    double perSecond =
        Math.max(load.releasedTokensPerSecond(), capacity / SLOWEST_TURNOVER_SECONDS);
    return 1000 * wanting / perSecond;
  }

  /** Leading tokens of the prompt that requests in flight on a worker hold in any case. */
  private static double inUseTokens(Sheet sheet, int i, WorkerLoad load) {
    if (load.hasInUse(sheet.prefixKey)) {
      return sheet.mostExpected;
    }
    // What is expected and not there yet is brought by a request in flight.
    return sheet.pending[i] > 0 ? sheet.held[i] + (double) sheet.pending[i] : 0;
  }

  /** Uncached tokens of our own requests that come first, less what must be done of the head. */
  private static double ownAhead(WorkerLoad load, Coefficients coefficients, long now) {
    double queued = load.queuedPrefillTokens();
    int requests = load.prefilling();
    if (queued <= 0 || requests <= 0) {
      return 0;
    }
    double done = load.headPrefillNanos(now) / 1e6 / coefficients.perTokenMillis();
    return queued - Math.min(done, queued / requests);
  }

  /** A worker whose gauges are unknown is never less loaded than the best known one. */
  private void liftUnknown(Sheet sheet, Set<Degradation> degradations) {
    if (sheet.allGauges) {
      return;
    }
    degradations.add(sheet.anyGauges ? Degradation.SOME_GAUGES_UNKNOWN : Degradation.NO_GAUGES);
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)) {
        lift(sheet, i);
      }
    }
  }

  private static void lift(Sheet sheet, int i) {
    if (sheet.anyGauges && !sheet.gaugesKnown[i]) {
      sheet.considered.predictedMillis[i] +=
          Math.max(0, sheet.bestKnownLoadMillis - sheet.loadMillis[i]);
    }
  }

  private static int best(Sheet sheet) {
    int best = -1;
    double bestScore = Double.POSITIVE_INFINITY;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i) && (best < 0 || sheet.score(i) < bestScore)) {
        best = i;
        bestScore = sheet.score(i);
      }
    }
    return best;
  }

  /**
   * Whether a worker may well be late: by its prediction and what predictions of that kind are
   * wrong by. A guess that nothing has been learned for refuses nobody.
   */
  private boolean isTooLate(Sheet sheet, int i, PickRequest request) {
    return request.limitMillis() > 0
        && latestMillis(sheet, i) > request.limitMillis()
        && sheet.coefficients[i].source() != Source.PRIOR;
  }

  /**
   * Whether a request may go to another worker than the best one to be in time. Not when that would
   * push other prefixes out of full caches: an overloaded pool that moves its prefixes about serves
   * nobody in time.
   */
  private static boolean mayMove(Sheet sheet) {
    return sheet.hasRoomForCopies || sheet.mostExpected == 0;
  }

  private static double latestMillis(Sheet sheet, int i) {
    double predicted = sheet.considered.predictedMillis[i];
    return predicted + sheet.coefficients[i].marginMillis(predicted, sheet.capacityMillis[i]);
  }

  /** Whether every worker would be over the limit if it had nothing else to do. */
  private static boolean isTooLongAlone(Sheet sheet, PickRequest request) {
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)) {
        double alone = sheet.considered.predictedMillis[i] - sheet.loadMillis[i];
        if (alone + sheet.coefficients[i].marginMillis(alone, 0) <= request.limitMillis()) {
          return false;
        }
      }
    }
    return true;
  }

  private static int soonest(Sheet sheet) {
    int soonest = -1;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)
          && (soonest < 0 || latestMillis(sheet, i) < latestMillis(sheet, soonest))) {
        soonest = i;
      }
    }
    return soonest;
  }

  private static int longestAgo(Sheet sheet) {
    int chosen = -1;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)
          && (chosen < 0
              || sheet.loads[i].lastPickSequence() < sheet.loads[chosen].lastPickSequence())) {
        chosen = i;
      }
    }
    return chosen;
  }

  private int breakTie(Sheet sheet, int best, @Nullable Worker preferred) {
    double limit = tieLimit(sheet, best);
    int chosen = best;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (!sheet.isOpen(i) || !(sheet.score(i) <= limit)) {
        continue;
      }
      if (sheet.considered.workers.get(i).equals(preferred)) {
        return i;
      }
      if (i != chosen && winsTie(sheet, i, chosen)) {
        chosen = i;
      }
    }
    return chosen;
  }

  /** More of the prompt held is less work for the fleet; then the quieter worker. */
  private static boolean winsTie(Sheet sheet, int a, int b) {
    int[] cached = sheet.considered.cachedTokens;
    return cached[a] != cached[b]
        ? cached[a] > cached[b]
        : isQuieter(sheet.loads[a], sheet.loads[b]);
  }

  /**
   * The best worker, or the one that holds most of the prompt when the best one's lead over it is
   * within what predictions of late were wrong by: a conversation does not leave its prefix, and
   * the fleet does not compute it twice, for a difference that is not there. A real queue on the
   * holder is a lead beyond that.
   */
  private int keepPrefix(Sheet sheet, int best) {
    int[] cached = sheet.considered.cachedTokens;
    int holder = best;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)
          && (cached[i] > cached[holder]
              || (cached[i] == cached[holder] && sheet.score(i) < sheet.score(holder)))) {
        holder = i;
      }
    }
    if (cached[holder] <= cached[best] || sheet.hasRoomForCopies) {
      return best;
    }
    double noise =
        Math.clamp(sheet.coefficients[holder].noiseShare(), MIN_NOISE_SHARE, MAX_NOISE_SHARE);
    double floorMillis = settings.tieFloorMillis();
    if (sheet.loads[holder].prefilling() == 0) {
      // Nobody waits there: what is left are learned speeds, which between like workers differ by
      // chance. Only a holder that is plainly slower is left.
      noise = MAX_NOISE_SHARE;
      floorMillis = IDLE_HOLDER_FLOOR_MILLIS;
    }
    return sheet.score(best) < sheet.score(holder) * (1 - noise) - floorMillis ? best : holder;
  }

  private double tieLimit(Sheet sheet, int best) {
    double score = sheet.score(best);
    return score + Math.max(settings.tieFloorMillis(), settings.tieShare() * score);
  }

  private static boolean isQuieter(WorkerLoad a, WorkerLoad b) {
    return a.inFlight() != b.inFlight()
        ? a.inFlight() < b.inFlight()
        : a.lastPickSequence() < b.lastPickSequence();
  }

  private static boolean holdsAsMuch(Sheet sheet, int i, int best) {
    return sheet.considered.cachedTokens[i] >= sheet.considered.cachedTokens[best];
  }

  /**
   * Index of a worker that gets little and would cost little more, -1 when it is not the time for
   * it: it may be new, or cold and so never chosen although it idles. A worker that is not new is
   * tried only with requests of which the best one holds no more: conversations keep their prefix.
   */
  private int explore(Sheet sheet, int best, long turn) {
    if (settings.exploreEvery() == 0 || (turn + 1) % settings.exploreEvery() != 0) {
      return -1;
    }
    double limit =
        sheet.score(best) * (1 + settings.exploreCostShare()) + settings.exploreCostMillis();
    double even = 0;
    int open = 0;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)) {
        even += sheet.loads[i].placedPerSecond();
        open++;
      }
    }
    double little = settings.exploreBelowShare() * even / open;
    int chosen = -1;
    for (int i = 0; i < sheet.loads.length; i++) {
      if (sheet.isOpen(i)
          && i != best
          && sheet.score(i) <= limit
          && sheet.loads[i].prefilling() == 0
          && (!sheet.loads[i].everPicked()
              || (sheet.loads[i].placedPerSecond() < little
                  && (sheet.hasRoomForCopies || holdsAsMuch(sheet, i, best))))
          && (chosen < 0
              || sheet.loads[i].lastPickSequence() < sheet.loads[chosen].lastPickSequence())) {
        chosen = i;
      }
    }
    return chosen;
  }

  private Reason reason(
      Sheet sheet, int best, int chosen, int explored, @Nullable Worker preferred) {
    if (explored >= 0) {
      return Reason.EXPLORATION;
    }
    double limit = tieLimit(sheet, best);
    boolean tie = false;
    for (int i = 0; i < sheet.loads.length && !tie; i++) {
      tie = i != chosen && sheet.isOpen(i) && sheet.score(i) <= limit;
    }
    if (!tie) {
      return Reason.LOWEST_PREDICTION;
    }
    return sheet.considered.workers.get(chosen).equals(preferred) ? Reason.SESSION : Reason.TIE;
  }

  private double typicalTokens(String pool) {
    Double mix = promptMix.get(pool);
    return mix == null ? FIRST_MIX_TOKENS : mix;
  }

  private Work work(PickRequest request, Sheet sheet, int i) {
    Worker worker = sheet.considered.workers.get(i);
    int prompt =
        request.tokens() == Tokens.UNKNOWN
            ? (int) typicalTokens(worker.pool())
            : request.promptTokens();
    int uncached = Math.max(0, prompt - sheet.considered.cachedTokens[i]);
    return new Work(
        uncached,
        prompt,
        request.expectedOutputTokens(),
        request.ttl().toNanos(),
        (long) (sheet.considered.predictedMillis[i] * 1e6),
        request.reportsFirstToken(),
        sheet.prefixKey,
        sheet.prefixKey == 0 ? 0 : sheet.mostExpected);
  }

  private Pick picked(
      PickRequest request,
      Sheet sheet,
      int i,
      Reason reason,
      Reservation reservation,
      Set<Degradation> degradations) {
    Worker worker = sheet.considered.workers.get(i);
    boolean known = request.tokens() != Tokens.UNKNOWN;
    int cached = sheet.considered.cachedTokens[i];
    double uncached =
        known ? request.promptTokens() - (double) cached : typicalTokens(worker.pool());
    if (known) {
      double mix = typicalTokens(worker.pool());
      promptMix.put(worker.pool(), mix + MIX_WEIGHT * (uncached - mix));
    }
    var features =
        new Features(
            uncached,
            cached,
            sheet.aheadTokens[i],
            sheet.decoding[i],
            sheet.capacityMillis[i],
            sheet.adapterMillis[i]);
    Prediction prediction = predictor.coefficients(worker).predict(features);
    if (request.adapter() != null) {
      adapters.used(request.adapter(), worker, reservation.takenAtNanos());
    }
    boolean teaches =
        request.tokens() == Tokens.EXACT
            && request.cacheKnowledge() != CacheKnowledge.NONE
            && request.reportsFirstToken()
            && !ledger.isBlind();
    var flight =
        new Flight(
            registry,
            predictor,
            book,
            nanoClock,
            reservation,
            worker,
            features,
            prediction.totalMillis(),
            known ? request.promptTokens() : 0,
            teaches);
    return new Picked(
        worker,
        flight,
        prediction,
        sheet.considered,
        reason,
        degradations.isEmpty() ? Set.of() : Collections.unmodifiableSet(degradations),
        fallbacks(request, sheet, i));
  }

  private static List<Worker> fallbacks(PickRequest request, Sheet sheet, int chosen) {
    if (request.fallbacks() == 0) {
      return List.of();
    }
    var list = new ArrayList<Worker>(request.fallbacks());
    boolean[] taken = new boolean[sheet.loads.length];
    taken[chosen] = true;
    while (list.size() < request.fallbacks()) {
      int next = -1;
      for (int i = 0; i < taken.length; i++) {
        if (!taken[i] && sheet.isOpen(i) && (next < 0 || sheet.score(i) < sheet.score(next))) {
          next = i;
        }
      }
      if (next < 0) {
        break;
      }
      taken[next] = true;
      list.add(sheet.considered.workers.get(next));
    }
    return List.copyOf(list);
  }
}
