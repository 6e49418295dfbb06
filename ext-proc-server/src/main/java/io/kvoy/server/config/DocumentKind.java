// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The kinds of document that may stand in the file. */
enum DocumentKind {
  KVOY_CONFIG("KvoyConfig", KvoyConfig.class, "How the server process behaves. At most one."),
  MODEL_POOL("ModelPool", ModelPool.class, "Workers that serve the same models. At least one.");

  private final String kind;
  private final Class<? extends Record> type;
  private final String doc;

  DocumentKind(String kind, Class<? extends Record> type, String doc) {
    this.kind = kind;
    this.type = type;
    this.doc = doc;
  }

  /** As written after {@code kind:}. */
  String kind() {
    return kind;
  }

  Class<? extends Record> type() {
    return type;
  }

  /** One line for the documentation. */
  String doc() {
    return doc;
  }

  static @Nullable DocumentKind of(String kind) {
    for (DocumentKind candidate : values()) {
      if (candidate.kind.equals(kind)) {
        return candidate;
      }
    }
    return null;
  }

  static List<String> kinds() {
    return Arrays.stream(values()).map(DocumentKind::kind).toList();
  }
}
