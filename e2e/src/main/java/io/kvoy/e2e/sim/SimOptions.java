// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Everything that makes one simulated worker.
 *
 * @param model served model name
 * @param loras adapters as {@code name=path}, numbered from 1 in this order
 * @param host address to listen on
 * @param port HTTP port, 0 for any
 * @param controlPort port of a second listener that serves {@code /sim/…} alone and outlives a
 *     crash; 0 for any, -1 for none
 * @param seed of everything random: answers, their lengths, jitter, request ids
 * @param timeScale machine seconds per wall second
 * @param apiOverheadMillis machine time between a request's arrival and its place in the queue, and
 *     with it the head of a streamed answer
 * @param meanAnswerTokens mean length of answers that are not cut short; 0 for answers that only
 *     limits end
 * @param keepAliveMillis wall time after which an idle connection is closed (uvicorn behind vLLM: 5
 *     s)
 * @param promptTokensDetails {@code --enable-prompt-tokens-details}: cached tokens in the usage
 * @param requestIdHeaders {@code --enable-request-id-headers}
 * @param dataParallelSize engines behind the one HTTP port; rank r publishes on the event and
 *     replay ports plus r
 * @param tokenizer the tokenizer; null for {@link WordTokenizer}
 */
public record SimOptions(
    String model,
    List<String> loras,
    String host,
    int port,
    int controlPort,
    long seed,
    double timeScale,
    double apiOverheadMillis,
    int meanAnswerTokens,
    int keepAliveMillis,
    boolean promptTokensDetails,
    boolean requestIdHeaders,
    EngineOptions engine,
    EventOptions events,
    int dataParallelSize,
    @Nullable SimTokenizer tokenizer) {

  public SimOptions {
    loras = List.copyOf(loras);
    if (model.isEmpty()) {
      throw new IllegalArgumentException("model must have a name");
    }
    for (String lora : loras) {
      if (lora.indexOf('=') <= 0) {
        throw new IllegalArgumentException("adapter must be name=path, was " + lora);
      }
    }
    if (!(timeScale > 0) || !(apiOverheadMillis >= 0) || meanAnswerTokens < 0) {
      throw new IllegalArgumentException(
          "timeScale must be > 0, apiOverheadMillis and meanAnswerTokens >= 0: %s %s %d"
              .formatted(timeScale, apiOverheadMillis, meanAnswerTokens));
    }
    if (dataParallelSize < 1 || dataParallelSize > 64) {
      throw new IllegalArgumentException("dataParallelSize must be 1..64: " + dataParallelSize);
    }
    if (keepAliveMillis < 1) {
      throw new IllegalArgumentException("keepAliveMillis must be positive: " + keepAliveMillis);
    }
  }

  /** A worker on free loopback ports with events, of the default size and speed. */
  public static SimOptions of(String model) {
    return builder(model).build();
  }

  SimOptions withPort(int newPort) {
    return toBuilder().port(newPort).build();
  }

  private Builder toBuilder() {
    return builder(model)
        .loras(loras.toArray(String[]::new))
        .host(host)
        .port(port)
        .controlPort(controlPort)
        .seed(seed)
        .timeScale(timeScale)
        .apiOverheadMillis(apiOverheadMillis)
        .meanAnswerTokens(meanAnswerTokens)
        .keepAliveMillis(keepAliveMillis)
        .promptTokensDetails(promptTokensDetails)
        .requestIdHeaders(requestIdHeaders)
        .engine(engine)
        .events(events)
        .dataParallelSize(dataParallelSize)
        .tokenizer(tokenizer);
  }

  /** Starts from what {@link #of} gives. */
  public static Builder builder(String model) {
    return new Builder(model);
  }

  /** Collects options; every setter replaces. */
  public static final class Builder {
    private final String model;
    private List<String> loras = List.of();
    private String host = "127.0.0.1";
    private int port;
    private int controlPort = -1;
    private long seed = 1;
    private double timeScale = 1;
    private double apiOverheadMillis = 4;
    private int meanAnswerTokens = 128;
    private int keepAliveMillis = 5000;
    private boolean promptTokensDetails = true;
    private boolean requestIdHeaders = true;
    private EngineOptions engine = EngineOptions.DEFAULTS;
    private EventOptions events = EventOptions.LOOPBACK;
    private int dataParallelSize = 1;
    private @Nullable SimTokenizer tokenizer;

    private Builder(String model) {
      this.model = model;
    }

    public Builder loras(String... nameEqualsPath) {
      loras = List.of(nameEqualsPath);
      return this;
    }

    public Builder host(String value) {
      host = value;
      return this;
    }

    public Builder port(int value) {
      port = value;
      return this;
    }

    public Builder controlPort(int value) {
      controlPort = value;
      return this;
    }

    public Builder seed(long value) {
      seed = value;
      return this;
    }

    public Builder timeScale(double value) {
      timeScale = value;
      return this;
    }

    public Builder apiOverheadMillis(double value) {
      apiOverheadMillis = value;
      return this;
    }

    public Builder meanAnswerTokens(int value) {
      meanAnswerTokens = value;
      return this;
    }

    public Builder keepAliveMillis(int value) {
      keepAliveMillis = value;
      return this;
    }

    public Builder promptTokensDetails(boolean value) {
      promptTokensDetails = value;
      return this;
    }

    public Builder requestIdHeaders(boolean value) {
      requestIdHeaders = value;
      return this;
    }

    public Builder engine(EngineOptions value) {
      engine = value;
      return this;
    }

    public Builder events(EventOptions value) {
      events = value;
      return this;
    }

    public Builder dataParallelSize(int value) {
      dataParallelSize = value;
      return this;
    }

    public Builder tokenizer(@Nullable SimTokenizer value) {
      tokenizer = value;
      return this;
    }

    public SimOptions build() {
      return new SimOptions(
          model,
          loras,
          host,
          port,
          controlPort,
          seed,
          timeScale,
          apiOverheadMillis,
          meanAnswerTokens,
          keepAliveMillis,
          promptTokensDetails,
          requestIdHeaders,
          engine,
          events,
          dataParallelSize,
          tokenizer);
    }
  }
}
