// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.bpe.BpeModel.VocabularyEntry;
import io.kvoy.tokenizer.encode.AddedTokenMatcher;
import io.kvoy.tokenizer.encode.PostProcessor;
import io.kvoy.tokenizer.files.AddedToken;
import io.kvoy.tokenizer.files.ByteAlphabet;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerJsonParser;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;

/**
 * Builds a {@link BpeTextEncoder} from a {@code tokenizer.json} when every part of the file is
 * known exactly: BPE over bytes, one of the pre-tokenizer expressions of {@link #SCANNERS}
 * character for character, form C or nothing as normalizer, added tokens without lstrip, rstrip and
 * single_word, a post-processor that only puts ids around.
 *
 * <p>Called on the loader thread; takes some tenths of a second for a large vocabulary.
 */
public final class BpeFileReader {

  /** Longest added token that is taken; the longest known one has 36 characters. */
  private static final int MAX_ADDED_TOKEN_CHARS = 1024;

  /** Ids are kept in 27 bits beside a length; the largest known vocabulary has under 2^19. */
  private static final int MAX_ID = (1 << 26) - 1;

  private static final String LETTERS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
  private static final String CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  private static final String OTHERS = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*";
  private static final String OTHERS_OR_SLASH = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*";
  private static final String SPACES = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  private static final String UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
  private static final String LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
  private static final String OPTIONAL_FIRST = "[^\\r\\n\\p{L}\\p{N}]?";

  /** Scanner by the expressions that it stands for, in the order in which the file applies them. */
  static final Map<List<String>, WordScanner> SCANNERS =
      Map.of(
          List.of(CONTRACTIONS + "|" + LETTERS + "|\\p{N}|" + OTHERS + "|" + SPACES),
          LetterRunScanner.qwen2(),
          List.of(CONTRACTIONS + "|" + LETTERS + "|\\p{N}{1,3}|" + OTHERS + "|" + SPACES),
          LetterRunScanner.llama3(),
          List.of(
              CONTRACTIONS
                  + "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
                  + SPACES),
          LetterRunScanner.qwen35(),
          List.of(
              OPTIONAL_FIRST
                  + UPPER
                  + "*"
                  + LOWER
                  + "+"
                  + CONTRACTIONS
                  + "?|"
                  + OPTIONAL_FIRST
                  + UPPER
                  + "+"
                  + LOWER
                  + "*"
                  + CONTRACTIONS
                  + "?|\\p{N}{1,3}|"
                  + OTHERS_OR_SLASH
                  + "|"
                  + SPACES),
          CasedRunScanner.o200k(),
          List.of(
              OPTIONAL_FIRST
                  + UPPER
                  + "*"
                  + LOWER
                  + "+|"
                  + OPTIONAL_FIRST
                  + UPPER
                  + "+"
                  + LOWER
                  + "*|\\p{N}|"
                  + OTHERS_OR_SLASH
                  + "|"
                  + SPACES),
          CasedRunScanner.tekken(),
          List.of(
              "\\p{N}{1,3}",
              "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
              "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
                  + "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                  + "| ?[\\p{P}\\p{S}]+[\r\n]*|"
                  + SPACES.replace("\\r\\n", "\r\n")),
          new DeepSeekScanner());

  private final TokenizerFolder folder;

  private @Nullable Map<String, Integer> vocabulary;
  private int[] mergeLeft = new int[1 << 17];
  private int[] mergeRight = new int[1 << 17];
  private int[] merged = new int[1 << 17];
  private int mergeCount;

  private final SequencedMap<String, Json> modelSettings = new LinkedHashMap<>();

  private BpeFileReader(TokenizerFolder folder) {
    this.folder = folder;
  }

  /** Builds the encoder, or says what it does not know. */
  public static BpeFileRead read(TokenizerFolder folder) {
    if (!CodePointClasses.jdkHasReferenceUnicode()) {
      return new BpeFileRead.Unsupported("jdk_unicode_version");
    }
    try {
      return new BpeFileRead.Supported(new BpeFileReader(folder).build());
    } catch (Unknown unknown) {
      return new BpeFileRead.Unsupported(String.valueOf(unknown.getMessage()));
    } catch (JacksonException _) {
      return new BpeFileRead.Unsupported("json");
    }
  }

  private BpeTextEncoder build() throws Unknown {
    PostProcessor postProcessor =
        PostProcessor.read(folder.pipeline().postProcessor())
            .orElseThrow(() -> new Unknown("post_processor"));
    readFile();
    boolean normalizesToNfc = normalizesToNfc();
    WordScanner scanner = scanner();
    var rawTokens = new ArrayList<AddedToken>();
    var normalizedTokens = new ArrayList<AddedToken>();
    for (AddedToken listed : folder.addedTokens()) {
      checkAddedToken(listed);
      AddedToken token = withVocabularyId(listed);
      if (!token.normalized()) {
        rawTokens.add(token);
      } else {
        normalizedTokens.add(normalizesToNfc ? normalized(token) : token);
      }
    }
    return new BpeTextEncoder(
        new AddedTokenMatcher(rawTokens),
        new AddedTokenMatcher(normalizedTokens),
        normalizesToNfc,
        scanner,
        buildModel(),
        postProcessor);
  }

  private static AddedToken normalized(AddedToken token) {
    return new AddedToken(
        token.id(),
        Nfc.normalize(token.content()),
        token.singleWord(),
        token.lstrip(),
        token.rstrip(),
        true,
        token.special());
  }

  /**
   * The library gives an added token the id of the same text in the vocabulary, whatever the file
   * says.
   */
  private AddedToken withVocabularyId(AddedToken token) throws Unknown {
    Integer id = vocabulary == null ? null : vocabulary.get(token.content());
    if (id == null) {
      check(token.id() >= 0, "added_token_id");
      return token;
    }
    return new AddedToken(
        id,
        token.content(),
        token.singleWord(),
        token.lstrip(),
        token.rstrip(),
        token.normalized(),
        token.special());
  }

  private static void checkAddedToken(AddedToken token) throws Unknown {
    check(!token.singleWord(), "added_token_single_word");
    check(!token.lstrip() && !token.rstrip(), "added_token_strip");
    check(token.content().length() <= MAX_ADDED_TOKEN_CHARS, "added_token_length");
    check(token.id() <= MAX_ID, "added_token_id");
  }

  private void readFile() throws Unknown {
    try (JsonParser parser = TokenizerJsonParser.open(folder.tokenizerJson())) {
      parser.nextToken();
      while (parser.nextToken() == JsonToken.PROPERTY_NAME) {
        String name = parser.currentName();
        parser.nextToken();
        if (name.equals("model")) {
          readModel(parser);
        } else {
          parser.skipChildren();
        }
      }
    }
  }

  private void readModel(JsonParser parser) throws Unknown {
    check(parser.currentToken() == JsonToken.START_OBJECT, "model");
    while (parser.nextToken() == JsonToken.PROPERTY_NAME) {
      String name = parser.currentName();
      parser.nextToken();
      switch (name) {
        case "vocab" -> readVocabulary(parser);
        case "merges" -> readMerges(parser);
        default -> modelSettings.put(name, TokenizerJsonParser.readValue(parser));
      }
    }
  }

  private void readVocabulary(JsonParser parser) throws Unknown {
    check(parser.currentToken() == JsonToken.START_OBJECT, "vocab");
    var read = new HashMap<String, Integer>(1 << 18);
    while (parser.nextToken() == JsonToken.PROPERTY_NAME) {
      String entry = parser.currentName();
      check(parser.nextToken() == JsonToken.VALUE_NUMBER_INT, "vocab");
      int id = parser.getIntValue();
      check(id >= 0 && id <= MAX_ID, "vocab_id");
      read.put(entry, id);
    }
    vocabulary = read;
  }

  private void readMerges(JsonParser parser) throws Unknown {
    check(parser.currentToken() == JsonToken.START_ARRAY, "merges");
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      if (parser.currentToken() == JsonToken.START_ARRAY) {
        String left = nextString(parser);
        String right = nextString(parser);
        check(parser.nextToken() == JsonToken.END_ARRAY, "merges");
        addMerge(left, right);
      } else {
        check(parser.currentToken() == JsonToken.VALUE_STRING, "merges");
        String both = parser.getString();
        int space = both.indexOf(' ');
        check(space > 0 && both.indexOf(' ', space + 1) < 0, "merges");
        addMerge(both.substring(0, space), both.substring(space + 1));
      }
    }
  }

  private static String nextString(JsonParser parser) throws Unknown {
    check(parser.nextToken() == JsonToken.VALUE_STRING, "merges");
    return parser.getString();
  }

  private void addMerge(String left, String right) throws Unknown {
    Map<String, Integer> known = vocabulary;
    if (known == null) {
      throw new Unknown("merges_before_vocab");
    }
    Integer leftId = known.get(left);
    Integer rightId = known.get(right);
    Integer mergedId = known.get(left.concat(right));
    if (leftId == null || rightId == null || mergedId == null) {
      throw new Unknown("merge_outside_vocab");
    }
    if (mergeCount == merged.length) {
      mergeLeft = Arrays.copyOf(mergeLeft, mergeCount * 2);
      mergeRight = Arrays.copyOf(mergeRight, mergeCount * 2);
      merged = Arrays.copyOf(merged, mergeCount * 2);
    }
    mergeLeft[mergeCount] = leftId;
    mergeRight[mergeCount] = rightId;
    merged[mergeCount] = mergedId;
    mergeCount++;
  }

  private BpeModel buildModel() throws Unknown {
    check(isString(modelSettings.get("type"), "BPE"), "model_type");
    check(isAbsent(modelSettings.get("dropout")), "dropout");
    check(isAbsentOrEmpty(modelSettings.get("continuing_subword_prefix")), "subword_prefix");
    check(isAbsentOrEmpty(modelSettings.get("end_of_word_suffix")), "word_suffix");
    check(!isTrue(modelSettings.get("byte_fallback")), "byte_fallback");
    Map<String, Integer> known = vocabulary;
    if (known == null) {
      throw new Unknown("vocab");
    }
    var byteIds = new int[256];
    for (int b = 0; b < byteIds.length; b++) {
      Integer id = known.get(String.valueOf(ByteAlphabet.character(b)));
      if (id == null) {
        throw new Unknown("byte_without_token");
      }
      byteIds[b] = id;
    }
    var entries = new ArrayList<VocabularyEntry>(known.size());
    known.forEach(
        (entry, id) -> {
          byte[] bytes = ByteAlphabet.bytes(entry);
          if (bytes != null && bytes.length > 0) {
            entries.add(new VocabularyEntry(bytes, id));
          }
        });
    var merges = new MergeTable(mergeLeft, mergeRight, merged, mergeCount);
    return BpeModel.build(entries, byteIds, merges, isTrue(modelSettings.get("ignore_merges")));
  }

  private boolean normalizesToNfc() throws Unknown {
    return switch (folder.pipeline().normalizer()) {
      case Json.Null _ -> false;
      case Json.Obj object when isString(object.get("type"), "NFC") -> true;
      case Json.Obj object
          when isString(object.get("type"), "Sequence")
              && object.get("normalizers") instanceof Json.Arr(List<Json> items)
              && items.isEmpty() ->
          false;
      case Json.Obj _,
          Json.Arr _,
          Json.Bool _,
          Json.Int _,
          Json.BigInt _,
          Json.Real _,
          Json.Str _ ->
          throw new Unknown("normalizer");
    };
  }

  private WordScanner scanner() throws Unknown {
    Json preTokenizer = folder.pipeline().preTokenizer();
    List<Json> steps =
        preTokenizer instanceof Json.Obj object
                && isString(object.get("type"), "Sequence")
                && object.get("pretokenizers") instanceof Json.Arr(List<Json> items)
            ? items
            : List.of(preTokenizer);
    check(!steps.isEmpty(), "pre_tokenizer");
    var patterns = new ArrayList<String>();
    for (Json step : steps.subList(0, steps.size() - 1)) {
      patterns.add(pattern(step));
    }
    boolean usesBuiltInPattern = usesBuiltInPattern(steps.getLast());
    if (usesBuiltInPattern && patterns.isEmpty()) {
      return new Gpt2Scanner();
    }
    WordScanner scanner = usesBuiltInPattern ? null : SCANNERS.get(patterns);
    if (scanner == null) {
      throw new Unknown("pre_tokenizer_pattern");
    }
    return scanner;
  }

  /** The expression of a Split step. */
  private static String pattern(Json step) throws Unknown {
    if (step instanceof Json.Obj split
        && isString(split.get("type"), "Split")
        && isString(split.get("behavior"), "Isolated")
        && !isTrue(split.get("invert"))
        && split.get("pattern") instanceof Json.Obj pattern
        && pattern.get("Regex") instanceof Json.Str(String regex)) {
      return regex;
    }
    throw new Unknown("pre_tokenizer_step");
  }

  /**
   * Whether the last step, which must be ByteLevel, splits by the expression that it has built in.
   */
  private static boolean usesBuiltInPattern(Json step) throws Unknown {
    if (step instanceof Json.Obj byteLevel
        && isString(byteLevel.get("type"), "ByteLevel")
        && byteLevel.get("add_prefix_space") instanceof Json.Bool(boolean addsSpace)
        && !addsSpace) {
      // Absent means true: tokenizers 0.21 pre_tokenizers/byte_level.rs default_true.
      return byteLevel.get("use_regex") == null || isTrue(byteLevel.get("use_regex"));
    }
    throw new Unknown("pre_tokenizer_step");
  }

  private static boolean isString(@Nullable Json value, String expected) {
    return value instanceof Json.Str(String text) && text.equals(expected);
  }

  private static boolean isTrue(@Nullable Json value) {
    return value instanceof Json.Bool(boolean bool) && bool;
  }

  private static boolean isAbsent(@Nullable Json value) {
    return value == null || value instanceof Json.Null;
  }

  private static boolean isAbsentOrEmpty(@Nullable Json value) {
    return isAbsent(value) || isString(value, "");
  }

  private static void check(boolean known, String feature) throws Unknown {
    if (!known) {
      throw new Unknown(feature);
    }
  }

  /** Something that this package does not know; never leaves this class. */
  private static final class Unknown extends Exception {
    Unknown(String feature) {
      super(feature, null, false, false);
    }
  }
}
