// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.ArrayList;
import java.util.List;

/** Finds changed fields that a running server cannot take over. */
final class RestartFields {
  private RestartFields() {}

  /** Paths of fields marked {@link Setting#restart} that differ, in order of declaration. */
  static List<String> changed(KvoyConfig before, KvoyConfig after) {
    List<String> paths = new ArrayList<>();
    collect(DocumentKind.KVOY_CONFIG.kind() + ".spec", before, after, paths);
    return paths;
  }

  private static void collect(String path, Record before, Record after, List<String> paths) {
    for (SectionShape.Field field : SectionShape.of(before.getClass()).fields()) {
      Object old = field.valueIn(before);
      Object young = field.valueIn(after);
      String at = path + "." + field.name();
      if (field.leaf() == null && old instanceof Record section) {
        collect(at, section, (Record) young, paths);
      } else if (field.setting().restart() && !old.equals(young)) {
        paths.add(at);
      }
    }
  }
}
