// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.scoring.fleet.Worker;

/** Told of every request that got a worker. Called on the deciding thread: must be quick. */
@FunctionalInterface
public interface RoutedObserver {

  void routed(Understanding.Routable request, Worker worker);
}
