// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * One ZeroMQ message of a publisher, split into its parts; the payload is not read yet. Frame
 * layouts are those of vLLM 0.9 to 0.32 {@code distributed/kv_events.py} and of SGLang 0.5.23.
 */
public sealed interface KvMessage permits KvMessage.Published, KvMessage.ReplayEnd, KvDecodeError {

  /** Sequence number of the message that ends a replay (-1 as eight bytes). */
  long END_OF_REPLAY = -1;

  /**
   * A batch, live or replayed.
   *
   * @param topic as configured at the worker; by convention {@code kv@<pod>@<model>}, may be empty
   * @param sequence 0 for the first batch of a publisher's life, then one more for each
   */
  @SuppressWarnings("ArrayRecordComponent")
  record Published(String topic, long sequence, byte[] payload) implements KvMessage {}

  /** The replay is over. */
  record ReplayEnd() implements KvMessage {}

  /** Reads a message of the PUB socket: topic, sequence, payload. */
  static KvMessage ofPublished(List<byte[]> frames) {
    if (frames.size() != 3) {
      return new KvDecodeError(
          KvDecodeError.Kind.FRAME_COUNT, "expected 3 frames, had " + frames.size());
    }
    return published(frames.get(0), frames.get(1), frames.get(2));
  }

  /**
   * Reads an answer of the replay socket: an empty delimiter, then topic, sequence and payload
   * (vLLM 0.26 and later) or sequence and payload (before). Sequence -1 ends the replay.
   */
  static KvMessage ofReplayed(List<byte[]> frames) {
    int size = frames.size();
    if ((size != 3 && size != 4) || frames.get(0).length != 0) {
      return new KvDecodeError(
          KvDecodeError.Kind.FRAME_COUNT,
          "expected an empty frame and 2 or 3 more, had " + size + " frames");
    }
    byte[] topic = size == 4 ? frames.get(1) : frames.get(0);
    KvMessage message = published(topic, frames.get(size - 2), frames.get(size - 1));
    return message instanceof Published(_, long sequence, _) && sequence == END_OF_REPLAY
        ? new ReplayEnd()
        : message;
  }

  private static KvMessage published(byte[] topic, byte[] sequence, byte[] payload) {
    if (sequence.length != 8) {
      return new KvDecodeError(
          KvDecodeError.Kind.SEQUENCE_FRAME,
          "expected a sequence frame of 8 bytes, had " + sequence.length);
    }
    if (topic.length > Layout.MAX_TOPIC_BYTES) {
      return new KvDecodeError(
          KvDecodeError.Kind.TOO_LARGE,
          "topic of " + topic.length + " bytes, limit " + Layout.MAX_TOPIC_BYTES);
    }
    return new Published(
        new String(topic, StandardCharsets.UTF_8),
        (long) Layout.BIG_ENDIAN_LONG.get(sequence, 0),
        payload);
  }

  /** The two frames that ask a ROUTER for a replay, as a DEALER has to send them. */
  static List<byte[]> replayRequest(long fromSequence) {
    byte[] sequence = new byte[8];
    Layout.BIG_ENDIAN_LONG.set(sequence, 0, fromSequence);
    return List.of(new byte[0], sequence);
  }

  /** Constants of the frames that are nobody else's business. */
  final class Layout {
    private static final int MAX_TOPIC_BYTES = 4096;
    private static final VarHandle BIG_ENDIAN_LONG =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private Layout() {}
  }
}
