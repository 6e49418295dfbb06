// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache.vllm;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The block hashes of vLLM: {@code digest(i) = H((digest(i-1), token ids of block i, extra keys of
 * block i))}, where the first parent is {@code H(seed)} (vLLM 0.32 {@code
 * v1/core/kv_cache_utils.py}, {@code utils/hashing.py}).
 *
 * <p>Used to verify workers and by {@code kvoyctl hash}; routing does not need it. One instance per
 * thread.
 */
public final class VllmBlockHasher {

  /** vLLM's word in front of a multimodal item. */
  static final String MEDIA_TAG = "mm";

  /** Seed of sha256 and sha256_cbor when {@code PYTHONHASHSEED} is not set, from vLLM 0.29 on. */
  public static final String DEFAULT_SEED = "vllm-none-hash";

  private static final VarHandle BIG_ENDIAN_LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  private final Layout layout;
  private final Encoding encoding;
  private final @Nullable MessageDigest sha256;

  /** {@code --prefix-caching-hash-algo}. */
  public enum Algorithm {
    /** SHA-256 over pickle; vLLM's default. */
    SHA256("sha256"),
    SHA256_CBOR("sha256_cbor"),
    /** xxh3-128 over pickle. */
    XXHASH("xxhash"),
    XXHASH_CBOR("xxhash_cbor");

    private final String option;

    Algorithm(String option) {
      this.option = option;
    }

    /** The option's value. */
    public String option() {
      return option;
    }

    /** The algorithm of an option's value, or null. */
    public static @Nullable Algorithm ofOption(String option) {
      for (Algorithm algorithm : values()) {
        if (algorithm.option.equals(option)) {
          return algorithm;
        }
      }
      return null;
    }

    boolean isPickled() {
      return this == SHA256 || this == XXHASH;
    }

    boolean isSha256() {
      return this == SHA256 || this == SHA256_CBOR;
    }
  }

  /** How the extra keys look when they are hashed. */
  public enum Layout {
    /** vLLM 0.31 and later: tagged tuples, with the adapter's path. */
    TAGGED,
    /** 0.19 to 0.30: adapter name, media as (identifier, offset), salt. */
    UNTAGGED,
    /** 0.12 to 0.18: adapter name, media identifiers alone, salt. */
    BARE_MEDIA,
    /** 0.9 to 0.11: the adapter's number instead of its name. */
    ADAPTER_NUMBER
  }

  /** An adapter as the worker knows it. */
  public record Adapter(String name, int number, String path) {}

  /**
   * A multimodal item.
   *
   * @param offset index of its first placeholder token in the prompt
   * @param length number of its placeholder tokens
   */
  public record Media(String identifier, int offset, int length) {}

  /**
   * Prompt embeddings, row-major.
   *
   * @param bytesPerToken size of one token's row
   */
  @SuppressWarnings("ArrayRecordComponent") // never compared
  public record Embeddings(byte[] data, int bytesPerToken) {}

  /**
   * What is hashed.
   *
   * @param ids token ids; zeros for embeddings
   * @param adapter null for the base model
   * @param cacheSalt null for none
   * @param media multimodal items
   * @param embeddings null for none
   */
  @SuppressWarnings("ArrayRecordComponent")
  public record Prompt(
      int[] ids,
      @Nullable Adapter adapter,
      @Nullable String cacheSalt,
      List<Media> media,
      @Nullable Embeddings embeddings) {
    public Prompt {
      media = List.copyOf(media);
    }

    /** Text for the base model. */
    public static Prompt of(int[] ids, @Nullable String cacheSalt) {
      return new Prompt(ids, null, cacheSalt, List.of(), null);
    }
  }

  public VllmBlockHasher(Algorithm algorithm, Layout layout) {
    this.layout = layout;
    this.encoding = algorithm.isPickled() ? new Encoding.Pickle() : new Encoding.Cbor();
    this.sha256 = algorithm.isSha256() ? sha256() : null;
  }

  /**
   * The parent digest of first blocks: {@code PYTHONHASHSEED} as a string, or {@link
   * #DEFAULT_SEED}.
   */
  public byte[] noneHash(String seed) {
    encoding.text(seed);
    return hash();
  }

  /**
   * The digests of the prompt's whole blocks.
   *
   * @param noneHash from {@link #noneHash}, or the random bytes that vLLM before 0.29 starts with
   */
  public List<byte[]> digests(byte[] noneHash, Prompt prompt, int blockSize) {
    if (blockSize < 1 || blockSize > 8192) {
      throw new IllegalArgumentException("blockSize must be 1..8192, was " + blockSize);
    }
    int count = prompt.ids().length / blockSize;
    List<byte[]> digests = new ArrayList<>(count);
    byte[] parent = noneHash;
    for (int i = 0; i < count; i++) {
      List<Object> extras = extras(prompt, i * blockSize, blockSize);
      encoding.block(
          parent, prompt.ids(), i * blockSize, blockSize, extras.isEmpty() ? null : extras);
      parent = hash();
      digests.add(parent);
    }
    return digests;
  }

  /** What an event shows of a digest with integer hashes: its low 64 bits. */
  public static long eventHash(byte[] digest) {
    return (long) BIG_ENDIAN_LONG.get(digest, digest.length - 8);
  }

  private byte[] hash() {
    if (sha256 == null) {
      return Xxh3.digest128(encoding.buffer(), encoding.length());
    }
    sha256.update(encoding.buffer(), 0, encoding.length());
    return sha256.digest();
  }

  private List<Object> extras(Prompt prompt, int start, int size) {
    boolean isTagged = layout == Layout.TAGGED;
    List<Object> extras = new ArrayList<>();
    Adapter adapter = prompt.adapter();
    if (adapter != null) {
      extras.add(
          switch (layout) {
            case TAGGED -> List.of("lora", adapter.name(), adapter.path());
            case UNTAGGED, BARE_MEDIA -> adapter.name();
            case ADAPTER_NUMBER -> adapter.number();
          });
    }
    for (Media item : prompt.media()) {
      if (item.offset() < start + size && item.offset() + item.length() > start) {
        int offset = item.offset() - start;
        extras.add(
            switch (layout) {
              case TAGGED -> List.of(MEDIA_TAG, item.identifier(), offset);
              case UNTAGGED -> List.of(item.identifier(), offset);
              case BARE_MEDIA, ADAPTER_NUMBER -> item.identifier();
            });
      }
    }
    String salt = prompt.cacheSalt();
    if (salt != null && start == 0) {
      extras.add(isTagged ? List.of("cache_salt", salt) : salt);
    }
    Embeddings embeddings = prompt.embeddings();
    if (embeddings != null) {
      int row = embeddings.bytesPerToken();
      byte[] digest =
          sha256().digest(Arrays.copyOfRange(embeddings.data(), start * row, (start + size) * row));
      extras.add(isTagged ? List.of("prompt_embeds", digest) : digest);
    }
    return extras;
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
