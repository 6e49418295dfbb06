// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.TestFiles;
import io.kvoy.inference.dialect.BodyDecoder.Decoded;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.zip.Deflater;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BodyDecoderTest {
  private static final int LIMIT = 1 << 24;

  private static byte[] gzip(byte[] plain) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(out)) {
      gzip.write(plain);
    }
    return out.toByteArray();
  }

  private static byte[] deflate(byte[] plain, boolean bare) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    Deflater deflater = new Deflater(Deflater.DEFAULT_COMPRESSION, bare);
    try (DeflaterOutputStream stream = new DeflaterOutputStream(out, deflater)) {
      stream.write(plain);
    } finally {
      deflater.end();
    }
    return out.toByteArray();
  }

  @Test
  void BODY_04_gzipBodyReadsLikeThePlainOne() {
    byte[] encoded = TestFiles.bytes("cases/body-gzip.bin");
    Decoded decoded = BodyDecoder.decode(encoded, "gzip", LIMIT);
    assertThat(decoded).isInstanceOf(Decoded.Plain.class);
    byte[] plain = ((Decoded.Plain) decoded).body();
    assertThat(new String(plain, UTF_8))
        .isEqualTo(
            "{\"model\": \"demo-model\", \"messages\": [{\"role\": \"user\", \"content\": \"Name three"
                + " rivers.\"}], \"max_tokens\": 8}");
    InferenceRequest request =
        ((RequestParse.Parsed) Dialects.parse(ApiKind.CHAT_COMPLETIONS, plain)).request();
    assertThat(request.model()).isEqualTo("demo-model");
    assertThat(request.maxTokens()).hasValue(8);
  }

  @Test
  void bothFormsOfDeflateAreDecoded() throws IOException {
    byte[] plain = "{\"a\":\"ä\"}".repeat(50).getBytes(UTF_8);
    for (boolean bare : new boolean[] {true, false}) {
      assertThat(BodyDecoder.decode(deflate(plain, bare), "Deflate ", LIMIT))
          .isInstanceOfSatisfying(
              Decoded.Plain.class, decoded -> assertThat(decoded.body()).isEqualTo(plain));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"zstd", "br", "gzip, deflate", "gzip,gzip", "nonsense"})
  void otherEncodingsAreAValue(String encoding) {
    assertThat(BodyDecoder.decode(new byte[] {1}, encoding, LIMIT))
        .isEqualTo(new Decoded.Unsupported());
  }

  @Test
  void plainBodyIsNotCopied() {
    byte[] body = {1, 2, 3};
    for (String encoding : new String[] {null, "", "identity"}) {
      assertThat(((Decoded.Plain) BodyDecoder.decode(body, encoding, LIMIT)).body()).isSameAs(body);
    }
  }

  @Test
  void sizeIsHeldAtTheLimit() throws IOException {
    byte[] plain = new byte[100_000];
    assertThat(BodyDecoder.decode(gzip(plain), "gzip", 100_000)).isInstanceOf(Decoded.Plain.class);
    assertThat(BodyDecoder.decode(gzip(plain), "gzip", 99_999)).isEqualTo(new Decoded.TooLarge());
    assertThat(BodyDecoder.decode(plain, "", 99_999)).isEqualTo(new Decoded.TooLarge());
  }

  @Test
  void smallBombIsRefusedByItsRatio() throws IOException {
    byte[] bomb = gzip(new byte[8 << 20]);
    assertThat(bomb.length).isLessThan(10_000);
    assertThat(BodyDecoder.decode(bomb, "gzip", LIMIT)).isEqualTo(new Decoded.TooLarge());
  }

  @Test
  void brokenBytesAreCorruptForEveryCut() throws IOException {
    byte[] encoded = gzip("{\"model\":\"m\",\"prompt\":\"hello hello hello\"}".getBytes(UTF_8));
    for (int cut = 0; cut < encoded.length; cut++) {
      assertThat(BodyDecoder.decode(Arrays.copyOf(encoded, cut), "gzip", LIMIT))
          .as("cut at %s", cut)
          .isEqualTo(new Decoded.Corrupt());
    }
    byte[] flipped = encoded.clone();
    flipped[encoded.length - 6] ^= 1;
    assertThat(BodyDecoder.decode(flipped, "gzip", LIMIT)).isEqualTo(new Decoded.Corrupt());
    assertThat(BodyDecoder.decode(new byte[] {'{', '}'}, "deflate", LIMIT))
        .isEqualTo(new Decoded.Corrupt());
  }
}
