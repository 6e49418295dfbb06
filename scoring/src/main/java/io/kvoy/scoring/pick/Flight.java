// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.latency.Features;
import io.kvoy.scoring.latency.Lesson;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.Reservation;
import java.util.function.LongSupplier;

/**
 * A picked request until its end: the one object that the response path reports to. It passes each
 * report on to the ledger (release), the predictor (lesson) and the fleet (health), once.
 *
 * <p>Reports may come late, twice, in any order and from any thread. The order to expect is {@link
 * #attemptFailed}* {@link #servedBy}? {@link #firstToken}? {@link #ended}.
 */
public final class Flight {
  private final FleetRegistry registry;
  private final TtftPredictor predictor;
  private final LoadBook book;
  private final LongSupplier nanoClock;
  private final Reservation reservation;
  private final Features features;
  private final double predictedMillis;
  private final int promptTokens;
  private final boolean teaches;
  private volatile Worker worker;

  /** Set by the first report of another worker: the prediction was not for this one. */
  private volatile boolean moved;

  Flight(
      FleetRegistry registry,
      TtftPredictor predictor,
      LoadBook book,
      LongSupplier nanoClock,
      Reservation reservation,
      Worker worker,
      Features features,
      double predictedMillis,
      int promptTokens,
      boolean teaches) {
    this.registry = registry;
    this.predictor = predictor;
    this.book = book;
    this.nanoClock = nanoClock;
    this.reservation = reservation;
    this.worker = worker;
    this.features = features;
    this.predictedMillis = predictedMillis;
    this.promptTokens = promptTokens;
    this.teaches = teaches;
  }

  /** Worker that the request is booked on at present. */
  public Worker worker() {
    return worker;
  }

  /** Prompt tokens that the pick went by, 0 when not known. */
  public int promptTokens() {
    return promptTokens;
  }

  /** The place in the ledger. */
  public Reservation reservation() {
    return reservation;
  }

  /**
   * The first token of a good answer came. Not for errors, and not for answers that come as a
   * whole.
   */
  public void firstToken() {
    firstTokenAfter(nanoClock.getAsLong() - reservation.takenAtNanos());
  }

  /**
   * The same, told some time after it happened.
   *
   * @param nanos from the pick to the first token
   */
  public void firstTokenAfter(long nanos) {
    if (reservation.firstToken() && teaches && !moved) {
      double actualMillis = nanos / 1e6;
      boolean waitedForRoom =
          features.capacityMillis() > 0 || book.isFull(worker, nanoClock.getAsLong());
      predictor.learn(new Lesson(worker, features, predictedMillis, actualMillis, waitedForRoom));
    }
  }

  /** An attempt on a worker failed and the gateway goes on to another one. */
  public void attemptFailed(Worker attempted, Outcome outcome) {
    moved = true;
    registry.ended(attempted, outcome);
  }

  /**
   * Another worker than the picked one serves the request.
   *
   * @param server who serves
   * @param cachedTokens prompt tokens that it holds, 0 when not known
   */
  public void servedBy(Worker server, int cachedTokens) {
    if (reservation.servedBy(server, Math.max(0, promptTokens - cachedTokens))) {
      moved = true;
      worker = server;
    }
  }

  /** The request is over; the first report counts. */
  public void ended(Outcome outcome) {
    if (reservation.end()) {
      registry.ended(worker, outcome);
    }
  }
}
