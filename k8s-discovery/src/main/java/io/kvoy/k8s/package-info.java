// SPDX-License-Identifier: Apache-2.0

/**
 * Kubernetes objects as fleet and policy snapshots. Not built yet: fleets come from the
 * configuration file.
 */
@NullMarked
package io.kvoy.k8s;

import org.jspecify.annotations.NullMarked;
