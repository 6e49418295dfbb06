// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/**
 * What a client sees when Kvoy dies, by the moment of its request and by how Envoy is configured:
 * found on Envoy 1.40, and checked there by {@code KvoyDownIT}.
 */
public enum KvoyDeath {
  /** The request comes when Kvoy is down already. */
  BEFORE_THE_REQUEST {
    @Override
    public ClientView seen(
        RequestBodyMode requestBody, ResponseBodyMode answers, boolean failOpen) {
      if (!failOpen) {
        return ClientView.REFUSED;
      }
      return isWhole(requestBody) ? ClientView.SERVED : ClientView.SERVED_ONCE_NOTICED;
    }
  },
  /** A part of the request body has been sent. */
  IN_THE_BODY {
    @Override
    public ClientView seen(
        RequestBodyMode requestBody, ResponseBodyMode answers, boolean failOpen) {
      return failOpen && isWhole(requestBody) ? ClientView.SERVED : ClientView.REFUSED;
    }
  },
  /** The answer is on its way. */
  IN_THE_ANSWER {
    @Override
    public ClientView seen(
        RequestBodyMode requestBody, ResponseBodyMode answers, boolean failOpen) {
      return switch (answers) {
        case FULL_DUPLEX_STREAMED -> ClientView.CUT;
        case STREAMED -> failOpen && isWhole(requestBody) ? ClientView.GOES_ON : ClientView.CUT;
        case COPIED, REPORTED, NONE -> ClientView.GOES_ON;
      };
    }
  };

  /** What the client sees. */
  public enum ClientView {
    /** The fallback policy chooses a worker, which gets the whole body once. */
    SERVED("served by the fallback"),
    /**
     * The same, but refused until Envoy's health check has noticed, at most two intervals later.
     */
    SERVED_ONCE_NOTICED("served by the fallback once the health check has noticed, 503 before"),
    /** {@link LocalReply#PICKER_DOWN}; no worker gets anything. */
    REFUSED("503 in the caller's dialect"),
    /** The answer goes on to its end. */
    GOES_ON("goes on to its end"),
    /** The connection is cut in the middle of the answer. */
    CUT("is cut");

    private final String words;

    ClientView(String words) {
      this.words = words;
    }

    /** For a table. */
    public String words() {
      return words;
    }
  }

  /**
   * What a client sees.
   *
   * @param failOpen {@link EnvoyBootstrap#failOpen}
   */
  public abstract ClientView seen(
      RequestBodyMode requestBody, ResponseBodyMode answers, boolean failOpen);

  /** Whether Envoy still has the whole body when Kvoy has answered to it. */
  private static boolean isWhole(RequestBodyMode mode) {
    return switch (mode) {
      case BUFFERED, NONE -> true;
      case FULL_DUPLEX_STREAMED, BUFFERED_PARTIAL, STREAMED -> false;
    };
  }
}
