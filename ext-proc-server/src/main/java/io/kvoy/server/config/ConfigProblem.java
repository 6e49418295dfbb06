// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

/**
 * One thing wrong with a configuration file, in words that lead to the fix.
 *
 * @param kind for programs and tests
 * @param what what was expected and what was seen, such as {@code unknown field 'tokeniser'}
 * @param where the part of the document, such as {@code ModelPool.spec.workers[1]}
 * @param line 1-based; 0 when the problem has no place in the text
 * @param column 1-based; 0 when the problem has no place in the text
 * @param advice the next step, such as {@code did you mean 'tokenizer'?}; may be empty
 */
public record ConfigProblem(
    Kind kind, String what, String where, int line, int column, String advice) {

  /** The rules a file can break. */
  public enum Kind {
    /** The file is missing, not readable, too large or not UTF-8. */
    UNREADABLE,
    /** Not YAML, or YAML that is not used here: tags, merge keys, endless aliases, deep nesting. */
    SYNTAX,
    /** A key written twice in one mapping. */
    DUPLICATE_KEY,
    /** An apiVersion or kind that is none of ours. */
    UNKNOWN_KIND,
    UNKNOWN_FIELD,
    /** A required field is absent. */
    MISSING_FIELD,
    /** The value has another shape than the field. */
    WRONG_TYPE,
    OUT_OF_RANGE,
    /** A second KvoyConfig. */
    SECOND_CONFIG,
    /** No ModelPool at all. */
    NO_POOL,
    DUPLICATE_POOL_NAME,
    /** A model or adapter that two pools, or one pool twice, would serve. */
    DUPLICATE_MODEL,
    DUPLICATE_WORKER_NAME,
    DUPLICATE_WORKER_ADDRESS,
    /** Two workers whose events come from one socket. */
    DUPLICATE_KV_EVENTS,
    /** Two sources of one pool's tokens. */
    TOKENIZER_CONFLICT,
    /** Event settings that contradict each other. */
    KV_EVENTS_CONFLICT,
    PORT_COLLISION,
    /** Options from which no configuration for Envoy can be made. */
    ENVOY_CONFLICT,
    /** Times that contradict each other. */
    INTERVAL_CONFLICT,
    /** A tokenizer folder or template that is not there. */
    FILE_NOT_FOUND,
    /** More problems than are listed. */
    TOO_MANY
  }

  /** The whole sentence, on one line. */
  public String message() {
    StringBuilder text = new StringBuilder(what);
    if (!where.isEmpty()) {
      text.append(" in ").append(where);
    }
    if (line > 0) {
      text.append(" at line ").append(line);
    }
    if (!advice.isEmpty()) {
      text.append("; ").append(advice);
    }
    return text.toString();
  }
}
