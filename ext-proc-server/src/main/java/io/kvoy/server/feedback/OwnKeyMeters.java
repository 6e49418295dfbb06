// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.OwnKeyCheck.Finding;
import io.kvoy.scoring.kvcache.OwnKeys;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts and logs what {@link OwnKeyCheck} finds. Called on the housekeeping thread; {@link
 * #unverified} from any.
 */
public final class OwnKeyMeters implements OwnKeyCheck.Verdicts {
  private static final Logger LOG = LoggerFactory.getLogger(OwnKeyMeters.class);

  private final WorkerMeterBook workers;

  public OwnKeyMeters(WorkerMeterBook workers) {
    this.workers = workers;
  }

  @Override
  public void found(Worker worker, Finding finding) {
    workers.of(worker).ownKeysChecked(finding);
  }

  @Override
  public void changed(Worker worker, OwnKeys keys) {
    workers.of(worker).ownKeys(keys.state());
    switch (keys) {
      case OwnKeys.Unverified _ -> LOG.info("own_keys worker={} state=unverified", worker.name());
      case OwnKeys.Verified _ -> LOG.info("own_keys worker={} state=verified", worker.name());
      case OwnKeys.Mismatch(OwnKeys.Cause cause, String detail) ->
          LOG.warn(
              "own_keys worker={} state=mismatch cause={} detail=\"{}\" effect=\"scored without"
                  + " its cache\"",
              worker.name(),
              cause.name().toLowerCase(java.util.Locale.ROOT),
              detail);
    }
  }

  /** Workers with events whose keys are not verified. */
  public static int unverified(Fleet fleet, OwnKeyCheck check) {
    int unverified = 0;
    for (Worker worker : fleet.workers()) {
      if (!worker.kv().ranks().isEmpty() && !(check.of(worker) instanceof OwnKeys.Verified)) {
        unverified++;
      }
    }
    return unverified;
  }
}
