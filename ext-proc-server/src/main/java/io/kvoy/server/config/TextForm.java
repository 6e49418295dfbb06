// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The forms a text setting can have; each refuses what would break further inside. */
enum TextForm {
  /** Any text without control characters. */
  LINE("text of 1 to 1024 characters on one line", "[^\\p{Cntrl}]{1,1024}"),
  /** Name of a document: what Kubernetes accepts as the name of an object. */
  RESOURCE_NAME(
      "a name of at most 63 lower-case letters, digits, '-' and '.'",
      "[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?"),
  /** Name of a worker; it becomes the value of a metric tag. */
  WORKER_NAME(
      "a name of at most 128 letters, digits, and any of - . _ : [ ]",
      "[A-Za-z0-9\\[](?:[-A-Za-z0-9._:\\[\\]]{0,127})"),
  /** Model name as requests carry it; it becomes the value of a metric tag. */
  MODEL_NAME("a model name of 1 to 256 characters without spaces", "[^\\s\\p{Cntrl}]{1,256}"),
  /** Bare address or host name, IPv6 without brackets. */
  HOST("an IP address or host name", "[A-Za-z0-9](?:[-A-Za-z0-9.]{0,252})|[0-9A-Fa-f:.]{2,45}"),
  /** ZeroMQ endpoint. */
  ZMQ_ENDPOINT(
      "a ZeroMQ endpoint such as tcp://10.0.0.7:5557 or ipc:///run/vllm/kv",
      "tcp://(?:\\*|\\[[0-9A-Fa-f:.]{2,45}\\]|[A-Za-z0-9](?:[-A-Za-z0-9._]{0,252})):[0-9]{1,5}"
          + "|ipc://[^\\s\\p{Cntrl}]{1,107}"),
  /**
   * Repository of a hub; becomes part of a path on disk, so no dots only and no slashes but one.
   */
  HUB_REPOSITORY(
      "a hub repository such as Qwen/Qwen3-8B",
      "(?!.*(?:\\.\\.|--))(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,95}"),
  /** Branch, tag or commit of a hub repository. */
  HUB_REVISION(
      "a branch, tag or commit",
      "(?!.*(?:\\.\\.|//))[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9_-])?"),
  /** Base address of an HTTP service. */
  HTTP_URL(
      "a URL such as https://huggingface.co",
      "https?://[A-Za-z0-9\\[][-A-Za-z0-9._:\\[\\]]{0,252}(?:/[-A-Za-z0-9._~/]{0,255})?"),
  /** Name of an environment variable. */
  ENVIRONMENT_NAME("the name of an environment variable", "[A-Za-z_][A-Za-z0-9_]{0,127}"),
  /** A JSON object, as Python's {@code json} reads it. */
  JSON_OBJECT("a JSON object such as {\"enable_thinking\": false}", "\\{[^\\p{Cntrl}]{0,4094}\\}") {
    @Override
    boolean accepts(String text) {
      return super.accepts(text) && jsonObject(text) != null;
    }
  },
  /** Name of a logger. */
  LOGGER_NAME("a logger name such as io.kvoy.server", "[A-Za-z0-9_][-A-Za-z0-9_.$]{0,255}");

  private static final JsonReader JSON = new JsonReader(JsonLimits.DEFAULTS);

  private final String expected;
  private final Pattern pattern;

  TextForm(String expected, String regex) {
    this.expected = expected;
    this.pattern = Pattern.compile(regex);
  }

  /** What a value of this form looks like, to be put after "expected". */
  String expected() {
    return expected;
  }

  /** The value of a text in the form {@link #JSON_OBJECT}, null when it is not in that form. */
  static Json.@Nullable Obj jsonObject(String text) {
    return JSON.read(text.getBytes(StandardCharsets.UTF_8)) instanceof JsonRead.Document document
            && document.value() instanceof Json.Obj object
        ? object
        : null;
  }

  boolean accepts(String text) {
    return pattern.matcher(text).matches();
  }
}
