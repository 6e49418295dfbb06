// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * What {@code namespace()} returns: the only value that a template can change. Belongs to one
 * render.
 */
final class Namespace {
  final Map<String, Object> attributes = new LinkedHashMap<>();
}
