// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.RequestParse;

/** Front door of the dialects: which API a path is, and what its body says. */
public final class Dialects {
  private Dialects() {}

  /**
   * The API kind of a request path; the query is ignored, unknown paths are {@link ApiKind#OTHER}.
   */
  public static ApiKind ofPath(String path) {
    int query = path.indexOf('?');
    String bare = query < 0 ? path : path.substring(0, query);
    for (ApiKind kind : ApiKind.values()) {
      if (kind != ApiKind.OTHER && kind.path().equals(bare)) {
        return kind;
      }
    }
    return ApiKind.OTHER;
  }

  /** Reads a whole body. Never throws for bad input. */
  public static RequestParse parse(ApiKind api, byte[] body) {
    return new RequestParse.PassThrough(api, "not_an_inference_path");
  }
}
