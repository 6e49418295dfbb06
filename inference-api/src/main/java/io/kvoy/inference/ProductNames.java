// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

/** The product's own names on every wire, in one place. */
public final class ProductNames {
  /** Group of the configuration kinds. */
  public static final String API_GROUP = "inference.kvoy.io";

  /** Version of the configuration kinds. */
  public static final String API_VERSION = API_GROUP + "/v1alpha1";

  /** Prefix of every HTTP header of ours. */
  public static final String HEADER_PREFIX = "x-kvoy-";

  /** Prefix of every metric of ours. */
  public static final String METRIC_PREFIX = "kvoy_";

  /** Name of the command line program. */
  public static final String CLI = "kvoyctl";

  private ProductNames() {}
}
