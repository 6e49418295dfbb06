// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.server.config.ModelPool.HubTokenizer;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Brings one revision of a hub repository into the {@link HubCache}: asks which commit it is and
 * which files that has, then fetches those that a tokenizer is made of.
 *
 * <p>Each file is written beside its place and renamed into it when its length and digest are
 * right; {@code tokenizer.json} comes last, so a half-fetched snapshot is never taken for a whole
 * one. What an attempt has fetched stays, and the next one goes on from there. Redirects are
 * followed by hand: the access token is shown to the hub itself and to nobody it points to.
 *
 * <p>Blocking; one thread at a time.
 */
final class HubFetch {
  /** A hub that is slower would keep the one fetching thread for days. */
  private static final long MIN_BYTES_PER_SECOND = 4096;

  /** Largest {@code tokenizer.json}; the reader of folders takes no larger one. */
  private static final long MAX_TOKENIZER_BYTES = 128L << 20;

  /** Largest other file, for the same reason. */
  private static final long MAX_CONFIG_BYTES = 8L << 20;

  /** Answers that list a repository's files: 100 bytes a file. */
  private static final long MAX_LISTING_BYTES = 8L << 20;

  private static final int MAX_REDIRECTS = 5;
  private static final int MAX_TEMPLATES = 32;

  /** Besides {@code tokenizer.json} and {@code additional_chat_templates/*.jinja}. */
  private static final Set<String> FILES =
      Set.of(
          "tokenizer_config.json",
          "special_tokens_map.json",
          "chat_template.jinja",
          "chat_template.json",
          "config.json");

  private static final String TEMPLATE = "additional_chat_templates/[A-Za-z0-9_][A-Za-z0-9._-]*";

  private final HubSettings settings;
  private final HubCache cache;
  private final HttpClient http;
  private final JsonReader json =
      new JsonReader(JsonLimits.DEFAULTS.withMaxDocumentBytes((int) MAX_LISTING_BYTES));

  /** What became of it. */
  sealed interface Result {

    /**
     * The files are there.
     *
     * @param isFresh whether anything was fetched
     */
    record Present(Path folder, String commit, boolean isFresh) implements Result {}

    /**
     * Not to be had at the moment.
     *
     * @param reason word for metrics
     * @param what one line for people, without the token
     * @param retryAfter as the hub asked, zero when it did not
     */
    record Failed(String reason, String what, Duration retryAfter) implements Result {}
  }

  HubFetch(HubSettings settings, HubCache cache, HttpClient http) {
    this.settings = settings;
    this.cache = cache;
    this.http = http;
  }

  /** Looks where the revision stands and fetches what is missing. */
  Result fetch(HubTokenizer wanted) throws InterruptedException {
    try {
      Listing listing = listing(wanted);
      Optional<Path> there = cache.whole(wanted, listing.commit());
      if (there.isPresent() && hasAll(there.get(), listing.files())) {
        cache.checked(wanted, listing.commit());
        cache.remember(wanted, listing.commit());
        return new Result.Present(there.get(), listing.commit(), false);
      }
      Path lockFile = cache.lockFile(wanted);
      Files.createDirectories(lockFile.resolveSibling("."));
      try (FileChannel channel =
              FileChannel.open(lockFile, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
          FileLock lock = tryLock(channel)) {
        if (lock == null) {
          return new Result.Failed(
              "locked", "another process is fetching this repository", Duration.ZERO);
        }
        return download(wanted, listing);
      }
    } catch (Refusal refusal) {
      return refusal.result;
    } catch (IOException e) {
      return new Result.Failed(
          "disk", "the cache cannot be written: " + e.getClass().getSimpleName(), Duration.ZERO);
    }
  }

  private static @Nullable FileLock tryLock(FileChannel channel) throws IOException {
    try {
      return channel.tryLock();
    } catch (OverlappingFileLockException _) {
      return null;
    }
  }

  // ---- which commit, which files ----

  private record Listing(String commit, List<String> files) {}

  private Listing listing(HubTokenizer wanted) throws Refusal, InterruptedException {
    URI uri =
        address("/api/models/" + wanted.repository() + "/revision/" + escaped(wanted.revision()));
    byte[] body = get(uri, 0, "", _ -> BoundedBody.inMemory(MAX_LISTING_BYTES)).body;
    if (!(json.read(body) instanceof JsonRead.Document document)
        || !(document.value() instanceof Json.Obj model)
        || !(model.get("sha") instanceof Json.Str(String commit))
        || !HubCache.COMMIT.matcher(commit).matches()
        || !(model.get("siblings") instanceof Json.Arr(List<Json> siblings))) {
      throw refusal("protocol", "the hub's answer names no commit and files");
    }
    TreeSet<String> files = new TreeSet<>();
    int templates = 0;
    boolean isTokenizer = false;
    for (Json sibling : siblings) {
      if (sibling instanceof Json.Obj file
          && file.get("rfilename") instanceof Json.Str(String name)) {
        isTokenizer |= name.equals(HubCache.LAST_FILE);
        if (FILES.contains(name)) {
          files.add(name);
        } else if (name.endsWith(".jinja") && name.matches(TEMPLATE) && templates < MAX_TEMPLATES) {
          templates++;
          files.add(name);
        }
      }
    }
    if (!isTokenizer) {
      throw refusal("no_tokenizer", "the repository has no tokenizer.json at this revision");
    }
    List<String> ordered = new ArrayList<>(files);
    ordered.add(HubCache.LAST_FILE);
    return new Listing(commit, ordered);
  }

  /** A revision's slashes are part of its name, not of the path. */
  private static String escaped(String revision) {
    return revision.replace("/", "%2F");
  }

  private URI address(String path) {
    return URI.create(settings.base() + path);
  }

  // ---- the files ----

  private Result download(HubTokenizer wanted, Listing listing)
      throws IOException, Refusal, InterruptedException {
    Path folder = cache.snapshot(wanted, listing.commit());
    for (String name : listing.files()) {
      Path file = folder.resolve(name);
      if (!Files.isRegularFile(file)) {
        Files.createDirectories(file.resolveSibling(".").normalize());
        download(wanted, listing.commit(), name, file);
      }
    }
    cache.checked(wanted, listing.commit());
    cache.remember(wanted, listing.commit());
    return new Result.Present(folder, listing.commit(), true);
  }

  private static boolean hasAll(Path folder, List<String> files) {
    return files.stream().allMatch(name -> Files.isRegularFile(folder.resolve(name)));
  }

  private void download(HubTokenizer wanted, String commit, String name, Path file)
      throws IOException, Refusal, InterruptedException {
    long maxBytes = name.equals(HubCache.LAST_FILE) ? MAX_TOKENIZER_BYTES : MAX_CONFIG_BYTES;
    Path part = file.resolveSibling("." + file.getFileName() + ".part");
    URI uri = address("/" + wanted.repository() + "/resolve/" + commit + "/" + name);
    Answer<Long> answer;
    try (FileChannel out =
        FileChannel.open(part, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      long have = out.size();
      answer =
          get(
              uri,
              have,
              name,
              isRest -> {
                // Who was asked for the rest may send the whole all the same.
                long keep = isRest ? have : 0;
                out.truncate(keep).position(keep);
                return BoundedBody.into(out, maxBytes - keep);
              });
    } catch (Refusal refusal) {
      if (refusal.spoilsPart) {
        Files.deleteIfExists(part);
      }
      throw refusal;
    }
    long bytes = Files.size(part);
    if (answer.linkedBytes >= 0 && bytes != answer.linkedBytes) {
      throw startAgain(
          part, "%s has %d bytes, the hub announced %d".formatted(name, bytes, answer.linkedBytes));
    }
    if (!isWhole(part, bytes, answer.digest)) {
      throw startAgain(part, name + " is not what its digest says");
    }
    Files.move(part, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  private static Refusal startAgain(Path part, String what) throws IOException {
    Files.deleteIfExists(part);
    return new Refusal(new Result.Failed("corrupt", what, Duration.ZERO), true);
  }

  /**
   * The hub's entity tags are digests: SHA-256 for large files, git's SHA-1 of a blob for others.
   */
  private static boolean isWhole(Path file, long bytes, String digest) throws IOException {
    if (digest.matches("[0-9a-f]{64}")) {
      return digestOf(file, "SHA-256", new byte[0]).equals(digest);
    }
    if (digest.matches("[0-9a-f]{40}")) {
      byte[] head = ("blob " + bytes + "\0").getBytes(StandardCharsets.US_ASCII);
      return digestOf(file, "SHA-1", head).equals(digest);
    }
    return true;
  }

  private static String digestOf(Path file, String algorithm, byte[] head) throws IOException {
    try (InputStream in = Files.newInputStream(file)) {
      MessageDigest digest = MessageDigest.getInstance(algorithm);
      digest.update(head);
      byte[] copy = new byte[1 << 16];
      for (int read = in.read(copy); read >= 0; read = in.read(copy)) {
        digest.update(copy, 0, read);
      }
      return HexFormat.of().formatHex(digest.digest());
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every JDK has " + algorithm, e);
    }
  }

  // ---- HTTP ----

  private static final class Answer<T> {
    final T body;

    /** Length of the whole file as the hub told it, -1 when it did not. */
    final long linkedBytes;

    /** Digest of the whole file, empty when none was told. */
    final String digest;

    Answer(T body, long linkedBytes, String digest) {
      this.body = body;
      this.linkedBytes = linkedBytes;
      this.digest = digest;
    }
  }

  /** Where a body goes, made when the head of the answer is there. */
  private interface Target<T> {
    BoundedBody<T> open(boolean isRest) throws IOException;
  }

  private <T> Answer<T> get(URI first, long from, String name, Target<T> target)
      throws Refusal, InterruptedException {
    URI uri = first;
    long linkedBytes = -1;
    String digest = "";
    for (int hops = 0; hops <= MAX_REDIRECTS; hops++) {
      HttpResponse<Optional<T>> response = send(uri, from, name, target);
      boolean isHub = isHub(uri);
      if (isHub && digest.isEmpty()) {
        digest =
            response
                .headers()
                .firstValue("x-linked-etag")
                .or(() -> response.statusCode() < 300 ? tag(response) : Optional.empty())
                .map(HubFetch::unquoted)
                .orElse("");
        linkedBytes = response.headers().firstValueAsLong("x-linked-size").orElse(linkedBytes);
      }
      int status = response.statusCode();
      Optional<T> whole = response.body();
      if (whole.isPresent()) {
        return new Answer<>(whole.get(), linkedBytes, digest);
      }
      if (status == 416 && from > 0) {
        throw new Refusal(
            new Result.Failed("corrupt", name + " ends before what is there of it", Duration.ZERO),
            true);
      }
      if (status < 300 || status >= 400) {
        throw refusal(response, name);
      }
      uri = next(uri, response);
    }
    throw refusal("protocol", "more than " + MAX_REDIRECTS + " redirects");
  }

  private static Optional<String> tag(HttpResponse<?> response) {
    return response.headers().firstValue("etag");
  }

  private static String unquoted(String tag) {
    String bare = tag.startsWith("W/") ? tag.substring(2) : tag;
    return bare.replace("\"", "").toLowerCase(Locale.ROOT);
  }

  private URI next(URI from, HttpResponse<?> response) throws Refusal {
    String location = response.headers().firstValue("location").orElse("");
    URI to;
    try {
      to = from.resolve(location);
    } catch (IllegalArgumentException _) {
      throw refusal("protocol", "a redirect to what is no address");
    }
    String scheme = String.valueOf(to.getScheme());
    boolean isSafe =
        scheme.equals("https")
            || (scheme.equals("http") && "http".equals(settings.base().getScheme()));
    if (location.isEmpty() || !isSafe || to.getHost() == null) {
      throw refusal("protocol", "a redirect that leaves https");
    }
    return to;
  }

  private boolean isHub(URI uri) {
    URI base = settings.base();
    return uri.getScheme().equals(base.getScheme())
        && uri.getHost().equalsIgnoreCase(base.getHost())
        && uri.getPort() == base.getPort();
  }

  private <T> HttpResponse<Optional<T>> send(URI uri, long from, String name, Target<T> target)
      throws Refusal, InterruptedException {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(uri)
            .header("user-agent", "kvoy")
            // A compressed body has another length and digest than the file.
            .header("accept-encoding", "identity");
    if (from > 0) {
      request.header("range", "bytes=" + from + "-");
    }
    if (isHub(uri)) {
      settings.token().get().ifPresent(t -> request.header("authorization", "Bearer " + t));
    }
    AtomicReference<@Nullable BoundedBody<T>> open = new AtomicReference<>();
    CompletableFuture<HttpResponse<Optional<T>>> answer =
        http.sendAsync(
            request.build(),
            head -> {
              if (head.statusCode() != 200 && head.statusCode() != 206) {
                return HttpResponse.BodySubscribers.replacing(Optional.empty());
              }
              try {
                BoundedBody<T> body = target.open(head.statusCode() == 206);
                open.set(body);
                return HttpResponse.BodySubscribers.mapping(body, Optional::of);
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              }
            });
    long before = 0;
    while (true) {
      try {
        return answer.get(settings.timeout().toMillis(), TimeUnit.MILLISECONDS);
      } catch (TimeoutException _) {
        BoundedBody<T> body = open.get();
        long received = body == null ? 0 : body.received();
        if (received - before < settings.timeout().toMillis() * MIN_BYTES_PER_SECOND / 1000) {
          answer.cancel(true);
          throw refusal(
              "unavailable",
              received == before
                  ? "the hub fell silent in " + what(name)
                  : "the hub sends next to nothing of " + what(name));
        }
        before = received;
      } catch (ExecutionException e) {
        Throwable cause = e.getCause() == null ? e : e.getCause();
        if (cause instanceof BoundedBody.TooLargeException tooLarge) {
          throw refusal("too_large", what(name) + ": " + tooLarge.getMessage());
        }
        throw refusal(
            "unavailable",
            "the hub cannot be reached for %s: %s"
                .formatted(what(name), cause.getClass().getSimpleName()));
      } catch (InterruptedException e) {
        answer.cancel(true);
        throw e;
      }
    }
  }

  private static String what(String name) {
    return name.isEmpty() ? "the list of files" : name;
  }

  private static Refusal refusal(HttpResponse<?> response, String name) {
    int status = response.statusCode();
    Duration retryAfter =
        response
            .headers()
            .firstValue("retry-after")
            .filter(seconds -> seconds.matches("[0-9]{1,6}"))
            .map(seconds -> Duration.ofSeconds(Long.parseLong(seconds)))
            .orElse(Duration.ZERO);
    String reason =
        switch (status) {
          case 401 -> "unauthorized";
          case 403 -> "forbidden";
          case 404 -> "not_found";
          case 429 -> "rate_limited";
          default -> "unavailable";
        };
    String advice =
        switch (status) {
          case 401 -> "; the hub wants an access token, or the repository does not exist";
          case 403 -> "; the token's owner has no access, or must accept the model's terms";
          case 404 -> "; check repository and revision";
          default -> "";
        };
    return new Refusal(
        new Result.Failed(
            reason,
            "the hub answers %d for %s%s".formatted(status, what(name), advice),
            retryAfter),
        false);
  }

  private static Refusal refusal(String reason, String what) {
    return new Refusal(new Result.Failed(reason, what, Duration.ZERO), false);
  }

  /** Carries a failure up to {@link #fetch}; never leaves this class. */
  private static final class Refusal extends Exception {
    private static final long serialVersionUID = 1;
    private final transient Result.Failed result;

    /** Whether what was fetched of the file so far is of no use. */
    private final boolean spoilsPart;

    Refusal(Result.Failed result, boolean spoilsPart) {
      super(result.what(), null, false, false);
      this.result = result;
      this.spoilsPart = spoilsPart;
    }
  }
}
