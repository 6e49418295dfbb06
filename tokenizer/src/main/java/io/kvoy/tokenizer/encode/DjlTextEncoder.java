// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import ai.djl.huggingface.tokenizers.jni.LibUtils;
import ai.djl.huggingface.tokenizers.jni.TokenizersLibrary;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The HuggingFace {@code tokenizers} library (0.21, Rust) through DJL's JNI, ids only: token
 * strings, offsets and masks are never built, which saves 7-30 % of the CPU of {@code
 * HuggingFaceTokenizer.encode}.
 *
 * <p>DJL's own front class truncates at 512 tokens and pads unless told otherwise; here both are
 * switched off on the native object whatever the file says.
 *
 * <p>The native object is a raw pointer, so its end is guarded: {@link #close} forbids new encodes
 * and the last running one frees it; without a close it is freed after this object became
 * unreachable. All methods may be called from any thread. At first use DJL copies its library (15
 * MB) to {@code DJL_CACHE_DIR} or the home folder.
 */
public final class DjlTextEncoder implements TextEncoder, AutoCloseable {

  private static final Cleaner CLEANER = Cleaner.create();

  /**
   * Native memory per character of the file: 8 to 11 for Qwen 3, Llama 3.1, DeepSeek V3, gpt-oss
   * and Gemma 3, resident memory before and after, tokenizers 0.21.
   */
  private static final int NATIVE_BYTES_PER_CHAR = 10;

  private final NativeTokenizer tokenizer;
  private final long memoryBytes;
  private final Cleaner.Cleanable cleanable;

  private DjlTextEncoder(NativeTokenizer tokenizer, long memoryBytes) {
    this.tokenizer = tokenizer;
    this.memoryBytes = memoryBytes;
    this.cleanable = CLEANER.register(this, tokenizer);
  }

  /** What became of building an encoder. */
  public sealed interface Creation {

    /** Ready to encode. */
    record Created(DjlTextEncoder encoder) implements Creation {}

    /**
     * The library refuses the file or cannot be loaded.
     *
     * @param why one line without file content
     */
    record Refused(String why) implements Creation {}
  }

  /**
   * Builds an encoder; 0.4-1.6 s of CPU and up to 250 MiB of native memory for a large vocabulary.
   *
   * @param tokenizerJson the text of {@code tokenizer.json}
   */
  public static Creation create(String tokenizerJson) {
    try {
      LibUtils.checkStatus();
      long handle = TokenizersLibrary.LIB.createTokenizerFromString(tokenizerJson);
      var encoder =
          new DjlTextEncoder(
              new NativeTokenizer(handle), (long) NATIVE_BYTES_PER_CHAR * tokenizerJson.length());
      TokenizersLibrary.LIB.disableTruncation(handle);
      TokenizersLibrary.LIB.disablePadding(handle);
      return new Creation.Created(encoder);
    } catch (RuntimeException | LinkageError e) {
      // The library's message may quote the file, so only its class is told.
      return new Creation.Refused(
          "the tokenizers library refuses this tokenizer.json or cannot be loaded: "
              + e.getClass().getSimpleName());
    }
  }

  @Override
  public int @Nullable [] encode(String text, boolean addSpecialTokens) {
    if (LoneSurrogates.indexOf(text, 0, text.length()) >= 0) {
      return null;
    }
    tokenizer.enter();
    try {
      return narrow(tokenIds(text, addSpecialTokens));
    } finally {
      tokenizer.leave();
      // Without this the cleaner could free the native object while the last encode still runs.
      Reference.reachabilityFence(this);
    }
  }

  @Override
  public long memoryBytes() {
    return memoryBytes;
  }

  private long[] tokenIds(String text, boolean addSpecialTokens) {
    TokenizersLibrary lib = TokenizersLibrary.LIB;
    long encoding = lib.encode(tokenizer.handle, text, addSpecialTokens);
    try {
      return lib.getTokenIds(encoding);
    } finally {
      lib.deleteEncoding(encoding);
    }
  }

  private static int[] narrow(long[] ids) {
    var narrowed = new int[ids.length];
    for (int i = 0; i < ids.length; i++) {
      narrowed[i] = (int) ids[i];
    }
    return narrowed;
  }

  /**
   * Forbids further encodes. Running ones finish; the last of them frees the native memory.
   * Idempotent.
   */
  @Override
  public void close() {
    cleanable.clean();
  }

  /**
   * The native object and the number of encodes inside it. Must not refer to the encoder, or it
   * would never be freed.
   */
  private static final class NativeTokenizer implements Runnable {
    private static final int CLOSED = Integer.MIN_VALUE;

    private final long handle;

    /**
     * Encodes running, plus {@link #CLOSED} once closed; {@code CLOSED} alone means that nobody is
     * left.
     */
    private final AtomicInteger users = new AtomicInteger();

    NativeTokenizer(long handle) {
      this.handle = handle;
    }

    void enter() {
      int seen = users.get();
      while (!users.compareAndSet(checkOpen(seen), seen + 1)) {
        seen = users.get();
      }
    }

    private static int checkOpen(int users) {
      if (users < 0) {
        throw new IllegalStateException("encoder is closed");
      }
      return users;
    }

    void leave() {
      if (users.decrementAndGet() == CLOSED) {
        free();
      }
    }

    /** Called once, by close or by the cleaner. */
    @Override
    public void run() {
      if (users.addAndGet(CLOSED) == CLOSED) {
        free();
      }
    }

    private void free() {
      TokenizersLibrary.LIB.deleteTokenizer(handle);
    }
  }
}
