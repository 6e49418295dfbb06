// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import com.code_intelligence.jazzer.junit.FuzzTest;
import io.kvoy.inference.ApiKind;

class MessagesFuzzTest {
  @FuzzTest(maxDuration = "10m")
  void anyBodyIsReadWithoutHarm(byte[] body) {
    FuzzedBody.check(ApiKind.MESSAGES, body);
  }
}
