// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

/**
 * What discovery says about one worker: the input of {@link FleetRegistry}, without slot and life.
 *
 * @param pool pool it belongs to
 * @param name stable name, unique in the pool; the pair (pool, name) is the identity
 * @param endpoint where requests go; another endpoint under the same identity is a new life
 * @param incarnation what discovery knows of the process behind the name (pod UID and restart
 *     count), empty when it knows nothing; another value is a new life
 * @param readiness what the source of the declaration says; the registry adds what it sees itself
 * @param kv where its KV events come from; other endpoints are a new life
 */
public record WorkerSpec(
    String pool,
    String name,
    Endpoint endpoint,
    String incarnation,
    Readiness readiness,
    KvPublishers kv) {

  /** What the source of a declaration says about taking traffic. */
  public enum Readiness {
    READY,
    NOT_READY,
    /** Going away: running requests finish, new ones go elsewhere. */
    DRAINING
  }

  public WorkerSpec {
    if (pool.isEmpty() || name.isEmpty()) {
      throw new IllegalArgumentException(
          "pool and name must not be empty, were '" + pool + "' and '" + name + "'");
    }
  }

  /** A ready worker without KV events. */
  public static WorkerSpec ready(String pool, String name, Endpoint endpoint) {
    return new WorkerSpec(pool, name, endpoint, "", Readiness.READY, KvPublishers.NONE);
  }

  /** The same worker with another readiness. */
  public WorkerSpec with(Readiness other) {
    return new WorkerSpec(pool, name, endpoint, incarnation, other, kv);
  }

  /** The same worker with other publishers. */
  public WorkerSpec with(KvPublishers other) {
    return new WorkerSpec(pool, name, endpoint, incarnation, readiness, other);
  }

  /** Whether both describe the same process, so that what is known of one holds for the other. */
  boolean sameLifeAs(WorkerSpec other) {
    return endpoint.equals(other.endpoint)
        && incarnation.equals(other.incarnation)
        && kv.equals(other.kv);
  }
}
