// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.kv;

import io.kvoy.e2e.demo.StageWorker;
import io.kvoy.e2e.env.Ports;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import org.zeromq.ZMsg;

/**
 * A worker whose events reach Kvoy by way of this process, which loses them while it is told to.
 * The replay socket is the worker's own.
 */
public final class LossyEvents extends StandIn {
  private final String endpoint = "tcp://127.0.0.1:" + Ports.free();
  private final ZContext context = new ZContext();
  private volatile boolean loses;
  private final AtomicInteger lost = new AtomicInteger();
  private final AtomicInteger passed = new AtomicInteger();

  /** Takes the worker over. */
  public LossyEvents(StageWorker worker) {
    super(worker);
    ZMQ.Socket in = context.createSocket(SocketType.SUB);
    in.subscribe("");
    in.connect(worker.kvEvents());
    ZMQ.Socket out = context.createSocket(SocketType.PUB);
    out.bind(endpoint);
    Thread.ofPlatform().daemon().name("lossy-events").start(() -> pass(in, out));
  }

  private void pass(ZMQ.Socket in, ZMQ.Socket out) {
    try {
      while (!context.isClosed()) {
        ZMsg message = ZMsg.recvMsg(in);
        if (message == null) {
          return;
        }
        if (loses) {
          lost.incrementAndGet();
        } else {
          message.send(out);
          passed.incrementAndGet();
        }
      }
    } catch (ZMQException closed) {
      // The context ends with the worker.
    }
  }

  /** From now on every message is lost, or none. */
  public void lose(boolean everything) {
    loses = everything;
  }

  /** Messages that were lost. */
  public int lost() {
    return lost.get();
  }

  /** Messages that reached the other side, or would have. */
  public int passed() {
    return passed.get();
  }

  @Override
  public String kvEvents() {
    return endpoint;
  }

  @Override
  public void close() throws IOException {
    context.close();
    super.close();
  }
}
