// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** The tags that metrics carry, each with the reason why its values are few. */
enum MetricTag {
  API("api", "API of the request: `chat_completions`, `completions`, `responses`, `messages`, …"),
  POOL("pool", "Name of a ModelPool; `none` when no pool takes the request."),
  MODEL("model", "Model or adapter name from the configuration, else `other`."),
  WORKER("worker", "Name of a worker of the fleet; `other` beyond 10000 workers."),
  OUTCOME("outcome", "What Kvoy did with the request."),
  MODE("mode", "What the pick could go by: `exact`, `estimated`, `load_only`, `round_robin`."),
  REASON("reason", "Word from a closed list in the code; `other` beyond 64 words."),
  DIRECTION("direction", "`over` predicted too much, `under` too little, `exact` neither."),
  STAGE("stage", "`predicted` before the request was sent, `actual` when it was answered."),
  END("end", "How the response ended."),
  KIND("kind", "Kind of event or error from a closed list in the code."),
  RESULT("result", "How it ended."),
  TIER("tier", "Where the blocks lie: `gpu`, `cpu`, `storage`."),
  CAUSE("cause", "What a prediction was most likely wrong about: `cache`, `queue`, `rate`."),
  STATE("state", "One series per possible state, 1 for the present one and 0 for the others.");

  private final String key;
  private final String doc;

  MetricTag(String key, String doc) {
    this.key = key;
    this.doc = doc;
  }

  String key() {
    return key;
  }

  String doc() {
    return doc;
  }
}
