// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.server.config.KvoyConfig;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * How the hub is reached.
 *
 * @param base address without a slash at its end
 * @param cache absolute folder for what was fetched
 * @param token asked anew for every download, so that a rotated one is taken; never logged
 * @param timeout longest wait for an answer's head, and for any silence in its body
 * @param refresh between two looks at a branch or tag
 */
public record HubSettings(
    URI base, Path cache, Supplier<Optional<String>> token, Duration timeout, Duration refresh) {

  /** Real tokens have some 40 characters. */
  private static final int MAX_TOKEN_BYTES = 4096;

  /**
   * @param folder against which relative paths are read
   */
  public static HubSettings of(KvoyConfig.Hub hub, Path folder) {
    String url = hub.url();
    Optional<Path> tokenFile = hub.tokenFile().map(folder::resolve);
    String variable = hub.tokenVariable();
    return new HubSettings(
        URI.create(url.endsWith("/") ? url.substring(0, url.length() - 1) : url),
        folder.resolve(hub.cache()).toAbsolutePath().normalize(),
        () -> tokenFile.isPresent() ? read(tokenFile.get()) : usable(System.getenv(variable)),
        hub.timeout(),
        hub.refresh());
  }

  private static Optional<String> read(Path file) {
    try (InputStream in = Files.newInputStream(file)) {
      return usable(new String(in.readNBytes(MAX_TOKEN_BYTES), StandardCharsets.UTF_8));
    } catch (IOException _) {
      // The hub then says that it wants one, and that is told.
      return Optional.empty();
    }
  }

  /** A token with a line break would be a header of its own. */
  private static Optional<String> usable(String text) {
    return Optional.ofNullable(text)
        .map(String::strip)
        .filter(token -> token.matches("[\\x21-\\x7E]+"));
  }
}
