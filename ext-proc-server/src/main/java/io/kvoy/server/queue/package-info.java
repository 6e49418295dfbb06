// SPDX-License-Identifier: Apache-2.0

/** Requests that wait until a worker can take them. */
@NullMarked
package io.kvoy.server.queue;

import org.jspecify.annotations.NullMarked;
