// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.kvoy.tokenizer.LocalTokenizers;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class DjlTextEncoderTest {

  /**
   * Word level, so that it is small; truncation and padding are what a careless export leaves
   * behind.
   */
  private static final String SMALL =
      """
      {"version":"1.0",
       "truncation":{"direction":"Right","max_length":4,"strategy":"LongestFirst","stride":0},
       "padding":{"strategy":{"Fixed":16},"direction":"Right","pad_to_multiple_of":null,
         "pad_id":0,"pad_type_id":0,"pad_token":"[PAD]"},
       "added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"WhitespaceSplit"},
       "post_processor":null,"decoder":null,
       "model":{"type":"WordLevel","vocab":{"[PAD]":0,"a":1,"b":2,"?":3},"unk_token":"?"}}""";

  @Test
  void TOK_02_truncationAndPaddingOfTheFileAreIgnored() {
    try (var encoder = LocalTokenizers.createDjl(SMALL)) {
      assertThat(encoder.encode("a b", false)).containsExactly(1, 2);
      assertThat(encoder.encode("a ".repeat(20_000), false)).hasSize(20_000);
    }
  }

  @Test
  void aFileThatTheLibraryRefusesIsAValue() {
    assertThat(DjlTextEncoder.create("{\"model\":{}}"))
        .isInstanceOf(DjlTextEncoder.Creation.Refused.class);
  }

  @Test
  void PARSE_05_aLoneSurrogateIsRefusedAndAPairIsNot() {
    try (var encoder = LocalTokenizers.createDjl(SMALL)) {
      assertThat(encoder.encode("\uD83D\uDE42", false)).containsExactly(3);
      assertThat(encoder.encode("\uD83D\uDE42 \uD83D", false)).isNull();
    }
  }

  @Test
  void encodingAfterCloseIsABugAndClosingTwiceIsNot() {
    DjlTextEncoder encoder = LocalTokenizers.createDjl(SMALL);
    encoder.close();
    encoder.close();

    assertThatThrownBy(() -> encoder.encode("a", false)).isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> encoder.encode("a", false)).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void closingWhileOthersEncodeLetsThemFinish() throws InterruptedException, ExecutionException {
    for (int round = 0; round < 50; round++) {
      DjlTextEncoder encoder = LocalTokenizers.createDjl(SMALL);
      var started = new AtomicBoolean();
      Callable<Integer> encodeUntilClosed =
          () -> {
            int encodes = 0;
            try {
              while (true) {
                assertThat(encoder.encode("a b a", false)).containsExactly(1, 2, 1);
                encodes++;
                started.set(true);
              }
            } catch (IllegalStateException _) {
              return encodes;
            }
          };
      try (var threads = Executors.newFixedThreadPool(3)) {
        List<Future<Integer>> runs = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
          runs.add(threads.submit(encodeUntilClosed));
        }
        while (!started.get()) {
          Thread.onSpinWait();
        }
        encoder.close();
        for (Future<Integer> run : runs) {
          run.get();
        }
      }
    }
  }

  @Test
  void TOK_06_manyThreadsGetTheIdsOfOne() throws InterruptedException, ExecutionException {
    DjlTextEncoder encoder = LocalTokenizers.djl("llama3_1");
    List<String> texts = new ArrayList<>();
    List<int[]> alone = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      texts.add("The answer is %d.\n\tΩ 你好 \uD83D\uDE42 <|eot_id|>".formatted(i).repeat(i + 1));
      alone.add(Objects.requireNonNull(encoder.encode(texts.get(i), i % 2 == 0)));
    }
    Callable<Boolean> all =
        () -> {
          for (int i = 0; i < texts.size(); i++) {
            if (!Arrays.equals(encoder.encode(texts.get(i), i % 2 == 0), alone.get(i))) {
              return false;
            }
          }
          return true;
        };

    try (var threads = Executors.newFixedThreadPool(8)) {
      for (Future<Boolean> run : threads.invokeAll(java.util.Collections.nCopies(32, all))) {
        assertThat(run.get()).isTrue();
      }
    }
  }
}
