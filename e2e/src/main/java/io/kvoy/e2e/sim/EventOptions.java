// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

/**
 * How a worker tells about its cache ({@code --kv-events-config} of vLLM).
 *
 * @param endpoint address of the PUB socket, empty for none; bound when it holds {@code *} or
 *     {@code ::}, else connected to. Port 0 or {@code *} picks one
 * @param replayEndpoint address of the ROUTER socket, empty for none; always bound
 * @param topic first frame of each message
 * @param bufferSteps batches kept for replay
 * @param format layout of an event
 * @param framing layout of a replay answer
 * @param intHashes whether hashes are integers rather than bytes
 */
public record EventOptions(
    String endpoint,
    String replayEndpoint,
    String topic,
    int bufferSteps,
    Format format,
    Framing framing,
    boolean intHashes) {

  /** Layout of one event. */
  public enum Format {
    /** A map with the key {@code type}: 0.24 and later. */
    MAP,
    /** An array with the type first: 0.9 to 0.23. */
    ARRAY
  }

  /** Layout of a replay answer after the empty delimiter. */
  public enum Framing {
    /** Topic, sequence number, payload: 0.26 and later. */
    WITH_TOPIC,
    /** Sequence number, payload: 0.9 to 0.25. */
    WITHOUT_TOPIC
  }

  /** No events at all. */
  public static final EventOptions OFF =
      new EventOptions("", "", "", 10_000, Format.MAP, Framing.WITH_TOPIC, true);

  /** Bound to free loopback ports, everything else as vLLM 0.32 does by default. */
  public static final EventOptions LOOPBACK =
      OFF.withEndpoints("tcp://[::ffff:127.0.0.1]:0", "tcp://127.0.0.1:0");

  public EventOptions {
    if (bufferSteps < 1) {
      throw new IllegalArgumentException("bufferSteps must be positive, was " + bufferSteps);
    }
    if (endpoint.isEmpty() && !replayEndpoint.isEmpty()) {
      throw new IllegalArgumentException("a replay endpoint needs an event endpoint");
    }
  }

  /** Spells an IPv4 address that was mapped into IPv6 plainly. */
  static String plainIpv4(String endpoint) {
    return endpoint.replaceFirst("\\[::ffff:([0-9.]+)]", "$1");
  }

  /** The address that a peer on this machine connects to. */
  static String connectable(String endpoint) {
    return plainIpv4(endpoint).replace("tcp://*:", "tcp://127.0.0.1:");
  }

  /** These options for one data parallel rank: both ports plus the rank, but 0 stays 0. */
  EventOptions forRank(int rank) {
    return withEndpoints(offset(endpoint, rank), offset(replayEndpoint, rank));
  }

  private static String offset(String endpoint, int rank) {
    int colon = endpoint.lastIndexOf(':');
    if (rank == 0 || colon < 0 || !endpoint.startsWith("tcp://") || endpoint.endsWith(":0")) {
      return endpoint;
    }
    int port = Integer.parseInt(endpoint.substring(colon + 1));
    return endpoint.substring(0, colon + 1) + (port + rank);
  }

  /** Whether vLLM would bind this PUB address ({@code ZmqEventPublisher._is_bind_endpoint}). */
  static boolean binds(String endpoint) {
    return endpoint.contains("*")
        || endpoint.contains("::")
        || endpoint.startsWith("ipc://")
        || endpoint.startsWith("inproc://");
  }

  /**
   * These options with the ports that a publisher got, so that its successor binds the same ones.
   */
  EventOptions resolved(KvEventPublisher publisher) {
    return withEndpoints(publisher.endpoint(), publisher.replayEndpoint());
  }

  public EventOptions withEndpoints(String newEndpoint, String newReplayEndpoint) {
    return new EventOptions(
        newEndpoint, newReplayEndpoint, topic, bufferSteps, format, framing, intHashes);
  }

  public EventOptions withTopic(String newTopic) {
    return new EventOptions(
        endpoint, replayEndpoint, newTopic, bufferSteps, format, framing, intHashes);
  }

  public EventOptions withBufferSteps(int newBufferSteps) {
    return new EventOptions(
        endpoint, replayEndpoint, topic, newBufferSteps, format, framing, intHashes);
  }

  public EventOptions withWire(Format newFormat, Framing newFraming, boolean newIntHashes) {
    return new EventOptions(
        endpoint, replayEndpoint, topic, bufferSteps, newFormat, newFraming, newIntHashes);
  }
}
