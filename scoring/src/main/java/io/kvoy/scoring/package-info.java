// SPDX-License-Identifier: Apache-2.0

/**
 * Token ids and the fleet to a pick: what each worker holds ({@code kvcache}), how busy it is
 * ({@code load}), how long the first token will take there ({@code latency}), and which one to take
 * ({@code pick}).
 *
 * <p>Start at {@code pick}. Nothing here knows gRPC, Envoy or Kubernetes.
 */
@NullMarked
package io.kvoy.scoring;

import org.jspecify.annotations.NullMarked;
