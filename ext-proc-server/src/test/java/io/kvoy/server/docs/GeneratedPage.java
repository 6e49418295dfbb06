// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.docs;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A page of {@code docs/} that is written from code. Run the test with {@code
 * -Dkvoy.regenerate=true} to write the page; without it the test fails when page and code differ.
 */
public final class GeneratedPage {
  private GeneratedPage() {}

  public static void assertUpToDate(String fileName, String generated) {
    Path page = repositoryRoot().resolve("docs").resolve(fileName);
    try {
      if (Boolean.getBoolean("kvoy.regenerate")) {
        Files.createDirectories(page.getParent());
        Files.writeString(page, generated);
      }
      assertThat(page)
          .as("run the test again with -Dkvoy.regenerate=true and commit docs/%s", fileName)
          .exists()
          .content()
          .isEqualTo(generated);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Path repositoryRoot() {
    Path folder = Path.of("").toAbsolutePath();
    while (folder != null && !Files.exists(folder.resolve(".git"))) {
      if (Files.exists(folder.resolve("Makefile"))) {
        return folder;
      }
      folder = folder.getParent();
    }
    if (folder == null) {
      throw new IllegalStateException("no folder above has a .git or a Makefile");
    }
    return folder;
  }
}
