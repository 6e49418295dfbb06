// SPDX-License-Identifier: Apache-2.0

/**
 * A stand-in for a vLLM 0.32 worker that needs no GPU: same HTTP answers, same cache events, same
 * metrics names, and times that follow a simple machine model.
 *
 * <p>Start at {@link io.kvoy.e2e.sim.SimWorker}: a program, and {@code SimWorker.start} for several
 * workers inside one test. Behind it, {@link io.kvoy.e2e.sim.SimEngine} is the scheduler with its
 * block cache and knows neither sockets nor waiting; {@link io.kvoy.e2e.sim.EngineLoop} gives it a
 * thread and a clock; {@link io.kvoy.e2e.sim.KvEventPublisher} speaks ZeroMQ; {@link
 * io.kvoy.e2e.sim.OpenAiApi} and its siblings speak HTTP. Facts about vLLM are those of version
 * 0.32.0, recorded or read in its source. Nothing here knows Kvoy's own server.
 */
@NullMarked
package io.kvoy.e2e.sim;

import org.jspecify.annotations.NullMarked;
