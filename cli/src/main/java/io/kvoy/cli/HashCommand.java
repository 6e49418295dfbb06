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
      "Reads lines {\"algo\",\"pythonhashseed\",\"block_size\",\"token_ids\",\"cache_salt\",\"lora\",\"mm\"}, prints"
          + " {\"hashes\":[hex,...]}. lora is {name,id,path}, mm [{identifier,offset,length},...]."
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
    if (Fields.optional(line, "prompt_embeds") != null) {
      throw new BadLine("field prompt_embeds must be null: embeddings are not hashed here");
    }
    VllmBlockHasher.Prompt prompt =
        new VllmBlockHasher.Prompt(
            Fields.tokenIds(line),
            adapter(Fields.optional(line, "lora")),
            Fields.optionalText(line, "cache_salt"),
            media(Fields.optional(line, "mm")),
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

  private static List<VllmBlockHasher.Media> media(@Nullable Json value) throws BadLine {
    if (value == null) {
      return List.of();
    }
    // Half the range: offset plus length must not overflow.
    int max = Integer.MAX_VALUE / 2;
    List<VllmBlockHasher.Media> media = new ArrayList<>();
    for (Json item : Fields.list(value, "mm")) {
      Json.Obj fields = Fields.object(item, "mm");
      media.add(
          new VllmBlockHasher.Media(
              Fields.text(Fields.required(fields, "identifier"), "identifier"),
              Fields.integer(Fields.required(fields, "offset"), "offset", 0, max),
              Fields.integer(Fields.required(fields, "length"), "length", 1, max)));
    }
    return media;
  }
}
