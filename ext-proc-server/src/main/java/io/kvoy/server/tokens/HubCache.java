// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.server.config.ModelPool.HubTokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * Fetched repositories on disk, laid out as the hub's own clients do it: {@code
 * models--owner--name/refs/main} holds a commit, {@code models--owner--name/snapshots/<commit>} its
 * files. So a folder that one of them filled serves here without a hub, and the other way round.
 *
 * <p>A snapshot counts as whole when it has {@code tokenizer.json}, which is put there last.
 */
final class HubCache {
  static final Pattern COMMIT = Pattern.compile("[0-9a-f]{40}");

  /** The file that makes a snapshot whole. */
  static final String LAST_FILE = "tokenizer.json";

  private static final int MAX_REF_BYTES = 256;

  private final Path root;

  HubCache(Path root) {
    this.root = root;
  }

  /** The commit that a revision was last seen at; empty when it never was. */
  Optional<String> commitOf(HubTokenizer wanted) {
    if (COMMIT.matcher(wanted.revision()).matches()) {
      return Optional.of(wanted.revision());
    }
    Path ref = ref(wanted);
    try {
      if (!Files.isRegularFile(ref) || Files.size(ref) > MAX_REF_BYTES) {
        return Optional.empty();
      }
      return Optional.of(Files.readString(ref).strip())
          .filter(commit -> COMMIT.matcher(commit).matches());
    } catch (IOException _) {
      return Optional.empty();
    }
  }

  /** The folder of a revision whose files are all there. */
  Optional<Path> whole(HubTokenizer wanted) {
    return commitOf(wanted).flatMap(commit -> whole(wanted, commit));
  }

  /** The same for a known commit. */
  Optional<Path> whole(HubTokenizer wanted, String commit) {
    Path folder = snapshot(wanted, commit);
    return Files.isRegularFile(folder.resolve(LAST_FILE)) ? Optional.of(folder) : Optional.empty();
  }

  /**
   * Whether we have once seen that all files of this commit are there. Other clients that share the
   * cache fetch single files.
   */
  boolean isChecked(HubTokenizer wanted, String commit) {
    return Files.exists(checkMark(wanted, commit));
  }

  /** Notes that all files of this commit are there. */
  void checked(HubTokenizer wanted, String commit) throws IOException {
    if (!isChecked(wanted, commit)) {
      Files.write(checkMark(wanted, commit), new byte[0]);
    }
  }

  private Path checkMark(HubTokenizer wanted, String commit) {
    return repository(wanted).resolve(".kvoy-" + commit);
  }

  /** Where the files of a commit belong. */
  Path snapshot(HubTokenizer wanted, String commit) {
    return repository(wanted).resolve("snapshots").resolve(commit);
  }

  /** The file whose lock says that somebody is fetching this repository. */
  Path lockFile(HubTokenizer wanted) {
    return repository(wanted).resolve(".kvoy.lock");
  }

  /** Notes where a branch or tag stands. */
  void remember(HubTokenizer wanted, String commit) throws IOException {
    if (COMMIT.matcher(wanted.revision()).matches()) {
      return;
    }
    Path ref = ref(wanted);
    Path folder = ref.resolveSibling(".").normalize();
    Files.createDirectories(folder);
    Path fresh = Files.createTempFile(folder, ".ref", ".part");
    Files.writeString(fresh, commit);
    Files.move(fresh, ref, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  private Path ref(HubTokenizer wanted) {
    return repository(wanted).resolve("refs").resolve(wanted.revision());
  }

  private Path repository(HubTokenizer wanted) {
    return root.resolve("models--" + wanted.repository().replace("/", "--"));
  }
}
