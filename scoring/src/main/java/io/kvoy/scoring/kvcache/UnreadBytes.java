// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.concurrent.atomic.AtomicLong;
import zmq.Msg;
import zmq.msg.MsgAllocator;

/**
 * Notices a peer that sends a message without an end.
 *
 * <p>ZeroMQ hands a message of several frames over when its last frame is there; until then JeroMQ
 * 0.6.0 keeps the frames in memory, and neither its high-water mark nor its limit of a frame's
 * length bounds their number. But it asks for each frame's memory here, on its I/O thread. So
 * whoever reads the socket sees how much came since the last message that had an end.
 */
final class UnreadBytes implements MsgAllocator {

  /** Memory of a frame besides its bytes, about. */
  private static final int FRAME_BYTES = 96;

  private final AtomicLong allocated = new AtomicLong();

  /** {@link #allocated} when the last whole message was read; reading thread only. */
  private long atLastMessage;

  @Override
  public Msg allocate(int size) {
    allocated.addAndGet(size + FRAME_BYTES);
    return new Msg(size);
  }

  /** A whole message was read. */
  void read() {
    atLastMessage = allocated.get();
  }

  /**
   * Bytes of frames that came since the last {@link #read}. Means something once there is no whole
   * message to read: then all of them belong to one that has no end yet, or to none (heart-beats,
   * topics that were not asked for).
   */
  long sinceLastMessage() {
    return allocated.get() - atLastMessage;
  }
}
