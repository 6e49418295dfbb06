// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvoyctlHashTest {

  @Test
  void hashesEqualThoseOfVllm() {
    List<Json.Obj> vectors =
        Vectors.lines("block-hashes.jsonl").stream()
            .filter(vector -> vector.get("prompt_embeds") == Json.Null.NULL)
            .toList();

    Ran ran = Ran.withInput(vectors.stream().map(Vectors::compact).toList(), "hash");

    assertThat(ran.status()).isZero();
    assertThat(vectors).hasSize(65);
    assertThat(ran.answers().stream().map(answer -> answer.get("hashes")))
        .isEqualTo(vectors.stream().map(vector -> vector.get("hashes")).toList());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          {"algo":"md5","block_size":16,"token_ids":[]} | algo must be one of sha256, sha256_cbor
          {"algo":"sha256","block_size":0,"token_ids":[]} | block_size must be an integer from 1
          {"algo":"sha256","block_size":16,"token_ids":[1,-2]} | token_ids[1] must be an integer
          {"algo":"sha256","block_size":16,"token_ids":"1"} | token_ids must be an array
          {"algo":"sha256","block_size":16,"token_ids":[],"lora":"a"} | lora must be an object
          {"algo":"sha256","block_size":16,"token_ids":[],"lora":{"name":"a","id":1}} | path is required
          {"algo":"sha256","block_size":16,"token_ids":[],"pythonhashseed":0} | pythonhashseed must be a string
          {"algo":"xxhash","block_size":16,"token_ids":[]} | pythonhashseed is required for xxhash
          {"algo":"sha256","block_size":16,"token_ids":[],"mm":[{"identifier":"a","offset":-1}]} | offset must be an integer
          {"algo":"sha256","block_size":16,"token_ids":[],"prompt_embeds":{}} | prompt_embeds must be null
          """)
  void wrongFieldIsNamed(String line, String message) {
    Ran ran = Ran.withInput(List.of(line), "hash");

    assertThat(ran.status()).isEqualTo(1);
    assertThat(Vectors.text(ran.answers().getFirst(), "error")).contains(message);
  }
}
