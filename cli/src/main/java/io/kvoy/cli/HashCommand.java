// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.inference.Json;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Algorithm;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Layout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;

/** {@code kvoyctl hash}: the digests that a vLLM worker gives to a prompt's blocks. */
@Command(
    name = "hash",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    description = {
      "The block hashes of vLLM 0.31 and later.",
      "",
      "Reads lines {\"algo\",\"pythonhashseed\",\"block_size\",\"token_ids\",\"cache_salt\",\"lora\"}, prints"
          + " {\"hashes\":[hex,...]}. lora is {name,id,path}."
    })
final class HashCommand extends LineCommand implements Callable<Integer> {

  /** The largest block that the hasher takes. */
  private static final int MAX_BLOCK_TOKENS = 8192;

  HashCommand(Streams streams) {
    super(streams);
  }

  @Override
  public Integer call() {
    return answerAll();
  }

  @Override
  Json.Obj answer(byte[] body, Json.Obj line) throws BadLine {
    Algorithm algorithm = algorithm(Fields.text(Fields.required(line, "algo"), "algo"));
    int blockSize =
        Fields.integer(Fields.required(line, "block_size"), "block_size", 1, MAX_BLOCK_TOKENS);
    for (String unread : List.of("mm", "prompt_embeds")) {
      if (Fields.optional(line, unread) != null) {
        throw new BadLine("field " + unread + " must be null: only text is hashed here");
      }
    }
    VllmBlockHasher.Prompt prompt =
        new VllmBlockHasher.Prompt(
            Fields.tokenIds(line),
            adapter(Fields.optional(line, "lora")),
            Fields.optionalText(line, "cache_salt"),
            List.of(),
            null);
    VllmBlockHasher hasher = new VllmBlockHasher(algorithm, Layout.TAGGED);
    List<byte[]> digests =
        hasher.digests(hasher.noneHash(seed(line, algorithm)), prompt, blockSize);
    List<Json> hashes = new ArrayList<>(digests.size());
    for (byte[] digest : digests) {
      hashes.add(new Json.Str(HexFormat.of().formatHex(digest)));
    }
    return Json.Obj.of(Map.of("hashes", new Json.Arr(hashes)));
  }

  private static Algorithm algorithm(String option) throws BadLine {
    Algorithm algorithm = Algorithm.ofOption(option);
    if (algorithm == null) {
      throw new BadLine(
          "field algo must be one of "
              + String.join(
                  ", ", Arrays.stream(Algorithm.values()).map(Algorithm::option).toList()));
    }
    return algorithm;
  }

  private static String seed(Json.Obj line, Algorithm algorithm) throws BadLine {
    String seed = Fields.optionalText(line, "pythonhashseed");
    if (seed != null) {
      return seed;
    }
    return switch (algorithm) {
      case SHA256, SHA256_CBOR -> VllmBlockHasher.DEFAULT_SEED;
      case XXHASH, XXHASH_CBOR ->
          throw new BadLine(
              "field pythonhashseed is required for "
                  + algorithm.option()
                  + ": without it each worker starts from random bytes");
    };
  }

  private static VllmBlockHasher.@Nullable Adapter adapter(@Nullable Json value) throws BadLine {
    if (value == null) {
      return null;
    }
    Json.Obj lora = Fields.object(value, "lora");
    return new VllmBlockHasher.Adapter(
        Fields.text(Fields.required(lora, "name"), "name"),
        Fields.integer(Fields.required(lora, "id"), "id", 0, Integer.MAX_VALUE),
        Fields.text(Fields.required(lora, "path"), "path"));
  }
}
