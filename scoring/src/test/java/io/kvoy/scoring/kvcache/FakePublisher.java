// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;

/** The sockets of a vLLM worker's event publisher, served by hand. */
final class FakePublisher implements AutoCloseable {

  private final ZMQ.Socket pub;
  private final ZMQ.Socket router;
  private final String topic;
  private final boolean repliesWithTopic;
  private final List<byte[]> ring = new ArrayList<>();

  /** Sequences that were asked for. */
  final List<Long> asked = new ArrayList<>();

  private int ringStart;
  private boolean isMute;

  FakePublisher(ZContext context, String endpoint, String topic, boolean repliesWithTopic) {
    this.topic = topic;
    this.repliesWithTopic = repliesWithTopic;
    pub = context.createSocket(SocketType.PUB);
    pub.setLinger(0);
    if (endpoint.startsWith("connect ")) {
      pub.connect(endpoint.substring("connect ".length()));
    } else {
      bindWhenFree(pub, endpoint);
    }
    router = context.createSocket(SocketType.ROUTER);
    router.setLinger(0);
    // A worker answers from a thread of its own while we read. Here one thread does both, so the
    // answers to one request must have room.
    router.setSndHWM(0);
    router.bind("tcp://127.0.0.1:*");
  }

  String endpoint() {
    return pub.getLastEndpoint();
  }

  String replayEndpoint() {
    return router.getLastEndpoint();
  }

  /** Messages are numbered and kept, but not sent: as if the network lost them. */
  void mute(boolean on) {
    isMute = on;
  }

  /** Takes replay requests at this endpoint too, once its earlier owner has let it go. */
  void bindReplay(String endpoint) {
    bindWhenFree(router, endpoint);
  }

  /** JeroMQ lets an endpoint go some time after its socket was closed. */
  private static void bindWhenFree(ZMQ.Socket socket, String endpoint) {
    long deadline = System.nanoTime() + 10_000_000_000L;
    while (true) {
      try {
        socket.bind(endpoint);
        return;
      } catch (ZMQException e) {
        if (System.nanoTime() > deadline) {
          throw e;
        }
        Thread.onSpinWait();
      }
    }
  }

  void forgetBefore(int sequence) {
    ringStart = sequence;
  }

  void publish(KvEvent... events) {
    byte[] payload = MsgPack.payload(ring.size() + 0.25 * topic.hashCode(), events);
    long sequence = ring.size();
    ring.add(payload);
    if (!isMute) {
      pub.send(topic.getBytes(StandardCharsets.UTF_8), ZMQ.SNDMORE);
      pub.send(ByteBuffer.allocate(8).putLong(sequence).array(), ZMQ.SNDMORE);
      pub.send(payload);
    }
  }

  /** Answers the replay requests that have come. */
  void serve() {
    byte[] peer;
    while ((peer = router.recv(ZMQ.DONTWAIT)) != null) {
      router.recv();
      long from = ByteBuffer.wrap(router.recv()).getLong();
      asked.add(from);
      for (long sequence = Math.max(from, ringStart); sequence < ring.size(); sequence++) {
        answer(peer, sequence, ring.get((int) sequence));
      }
      answer(peer, -1, new byte[0]);
    }
  }

  private void answer(byte[] peer, long sequence, byte[] payload) {
    router.send(peer, ZMQ.SNDMORE);
    router.send(new byte[0], ZMQ.SNDMORE);
    if (repliesWithTopic) {
      router.send(sequence < 0 ? "" : topic, ZMQ.SNDMORE);
    }
    router.send(ByteBuffer.allocate(8).putLong(sequence).array(), ZMQ.SNDMORE);
    router.send(payload);
  }

  @Override
  public void close() {
    pub.close();
    router.close();
  }
}
