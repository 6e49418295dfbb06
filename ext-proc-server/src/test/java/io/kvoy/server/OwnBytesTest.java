// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import java.nio.ByteBuffer;
import java.util.List;
import org.junit.jupiter.api.Test;

class OwnBytesTest {
  private static final byte[] ABCD = {'a', 'b', 'c', 'd'};

  @Test
  void aBodyInOnePieceIsNotCopied() {
    assertThat(OwnBytes.of(List.of(UnsafeByteOperations.unsafeWrap(ABCD)), 4)).isSameAs(ABCD);
  }

  @Test
  void everyOtherOneIsCopied() throws Exception {
    ByteString wrapped = UnsafeByteOperations.unsafeWrap(ABCD);
    ByteString inDirectMemory =
        UnsafeByteOperations.unsafeWrap(ByteBuffer.allocateDirect(4).put(ABCD).flip());
    byte[] message =
        HttpBody.newBuilder().setBody(wrapped).setEndOfStream(true).build().toByteArray();

    assertThat(OwnBytes.of(List.of(wrapped.substring(1)), 3)).containsExactly('b', 'c', 'd');
    assertThat(OwnBytes.of(List.of(wrapped.substring(0, 3)), 3)).containsExactly('a', 'b', 'c');
    assertThat(OwnBytes.of(List.of(wrapped.concat(wrapped)), 8))
        .containsExactly('a', 'b', 'c', 'd', 'a', 'b', 'c', 'd');
    assertThat(OwnBytes.of(List.of(wrapped, wrapped), 8)).hasSize(8);
    assertThat(OwnBytes.of(List.of(inDirectMemory), 4)).containsExactly(ABCD);
    assertThat(OwnBytes.of(List.of(HttpBody.parseFrom(message).getBody()), 4))
        .containsExactly(ABCD);
    assertThat(OwnBytes.of(List.of(), 0)).isEmpty();
    assertThat(OwnBytes.of(List.of(ByteString.EMPTY), 0)).isEmpty();
  }
}
