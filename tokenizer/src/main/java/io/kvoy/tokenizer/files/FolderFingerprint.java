// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Sizes and times of the files that {@link TokenizerFolderReader} reads, to see a change without
 * reading them. Follows links, so a remounted Kubernetes volume counts as changed.
 */
public record FolderFingerprint(List<FileMark> files) {

  private static final List<String> FILES =
      List.of(
          "tokenizer.json",
          "tekken.json",
          "tokenizer_config.json",
          "config.json",
          "special_tokens_map.json",
          "chat_template.jinja",
          "chat_template.json",
          "additional_chat_templates");

  public FolderFingerprint {
    files = List.copyOf(files);
  }

  /**
   * One file that is there.
   *
   * @param identity the file system's own name for it where it has one, so that another file of the
   *     same size and time behind the same link is seen as another
   */
  public record FileMark(String name, String identity, long bytes, FileTime modified) {}

  /** Looks at the folder; files that cannot be looked at count as absent. */
  public static FolderFingerprint of(Path folder) {
    return of(folder, Optional.empty());
  }

  /** The same with a template file that lies elsewhere. */
  public static FolderFingerprint of(Path folder, Optional<Path> chatTemplate) {
    var marks = new ArrayList<FileMark>();
    for (String name : FILES) {
      mark(folder.resolve(name), name).ifPresent(marks::add);
    }
    chatTemplate.flatMap(file -> mark(file, "configured template")).ifPresent(marks::add);
    return new FolderFingerprint(marks);
  }

  private static Optional<FileMark> mark(Path file, String name) {
    try {
      var attributes = Files.readAttributes(file, BasicFileAttributes.class);
      return Optional.of(
          new FileMark(
              name,
              String.valueOf(attributes.fileKey()),
              attributes.size(),
              attributes.lastModifiedTime()));
    } catch (IOException _) {
      return Optional.empty();
    }
  }
}
