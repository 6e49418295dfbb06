// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.files.FolderProblem.Kind;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.SortedSet;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;

/**
 * Reads a tokenizer folder as transformers 5.19 and vLLM 0.32 read it. Only {@code tokenizer.json}
 * must be there, or else Mistral's {@code tekken.json}.
 *
 * <p>Called on the loader thread. Opens no file outside the folder, whatever the files say.
 */
public final class TokenizerFolderReader {

  /** Largest {@code tokenizer.json}; the largest known one (Gemma 3) has 33 MB. */
  static final long MAX_TOKENIZER_BYTES = 128L << 20;

  /** Largest other file; the largest known one is a {@code tokenizer_config.json} of 1.2 MB. */
  static final long MAX_CONFIG_BYTES = 8L << 20;

  /** Most files looked at in {@code additional_chat_templates}. */
  static final int MAX_ADDITIONAL_TEMPLATES = 32;

  private static final String PROVIDE =
      "copy tokenizer.json, tokenizer_config.json and any chat_template.* of the model into it";
  private static final String REPLACE = "replace it by the file of the model's repository";

  private final Path folder;

  /**
   * Where the array {@code added_tokens} closes in {@code tokenizer.json}; -1 when there is none.
   */
  private int addedTokensEnd = -1;

  private TokenizerFolderReader(Path folder) {
    this.folder = folder;
  }

  /** Reads the folder; every problem is a value. */
  public static FolderRead read(Path folder) {
    return read(folder, Optional.empty());
  }

  /**
   * Reads the folder with another chat template; every problem is a value.
   *
   * @param chatTemplate file that stands for all templates of the folder, as vLLM's {@code
   *     --chat-template} does; models that vLLM renders by code of its own have no use for one
   */
  public static FolderRead read(Path folder, Optional<Path> chatTemplate) {
    try {
      TokenizerFolder read = new TokenizerFolderReader(folder).readAll();
      return new FolderRead.Complete(
          chatTemplate.isEmpty() ? read : read.withChatTemplate(readTemplate(chatTemplate.get())));
    } catch (Refusal refusal) {
      return new FolderRead.Unusable(refusal.problem);
    }
  }

  private static String readTemplate(Path file) throws Refusal {
    String text = readText(file, MAX_CONFIG_BYTES);
    if (text == null) {
      throw new Refusal(
          Kind.ABSENT, file, "no such chat template", "copy the template there, or unset it");
    }
    return text;
  }

  private TokenizerFolder readAll() throws Refusal {
    String tokenizerJson = readText("tokenizer.json", MAX_TOKENIZER_BYTES);
    boolean isTekken = tokenizerJson == null;
    if (tokenizerJson == null) {
      tokenizerJson = tekkenAsTokenizerJson();
    }
    if (tokenizerJson == null) {
      throw new Refusal(Kind.ABSENT, folder, "no tokenizer.json in this folder", PROVIDE);
    }
    SequencedMap<String, Json> parts = readParts(tokenizerJson);
    var addedTokens = new ArrayList<>(addedTokens(part(parts, "added_tokens")));
    Json.Obj config = readObject("tokenizer_config.json");
    Json.Obj modelConfig = readObject("config.json");
    if (flag(config, "split_special_tokens")) {
      throw new Refusal(
          Kind.UNSUPPORTED,
          folder.resolve("tokenizer_config.json"),
          "\"split_special_tokens\" is true, which is not implemented",
          "route this model by load alone");
    }
    SequencedMap<String, Json> namedTokens = namedTokens(config);
    List<AddedToken> missing = ConfiguredTokens.missing(addedTokens, config, namedTokens);
    addedTokens.addAll(missing);
    return new TokenizerFolder(
        folder,
        withAddedTokens(tokenizerJson, missing),
        addedTokens,
        new TokenizerFolder.Pipeline(
            part(parts, "normalizer"), part(parts, "pre_tokenizer"), part(parts, "post_processor")),
        texts(namedTokens),
        chatTemplates(config),
        isTekken ? Optional.of("mistral") : ownChatRenderer(modelConfig, addedTokens));
  }

  /** Mistral's own file, null when there is none either. */
  private @Nullable String tekkenAsTokenizerJson() throws Refusal {
    String tekken = readText("tekken.json", MAX_TOKENIZER_BYTES);
    if (tekken == null) {
      return null;
    }
    String converted = TekkenFile.asTokenizerJson(tekken);
    if (converted == null) {
      throw malformed("tekken.json", "is no vocabulary by rank with a pattern and 256 bytes first");
    }
    return converted;
  }

  private static Json part(Map<String, Json> parts, String name) {
    return parts.getOrDefault(name, Json.Null.NULL);
  }

  /** Everything of the file but the model, which is by far the largest part. */
  private SequencedMap<String, Json> readParts(String tokenizerJson) throws Refusal {
    var parts = new LinkedHashMap<String, Json>();
    boolean sawModel = false;
    try (JsonParser parser = TokenizerJsonParser.open(tokenizerJson)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        throw malformed("tokenizer.json", "is not a JSON object");
      }
      while (parser.nextToken() == JsonToken.PROPERTY_NAME) {
        String name = parser.currentName();
        parser.nextToken();
        if (name.equals("model")) {
          sawModel = true;
          parser.skipChildren();
        } else {
          parts.put(name, TokenizerJsonParser.readValue(parser));
          if (name.equals("added_tokens") && parser.currentToken() == JsonToken.END_ARRAY) {
            addedTokensEnd = (int) parser.currentTokenLocation().getCharOffset();
          }
        }
      }
    } catch (JacksonException e) {
      throw malformed("tokenizer.json", "is not valid JSON" + position(e));
    }
    if (!sawModel) {
      throw malformed("tokenizer.json", "has no field \"model\"");
    }
    return parts;
  }

  private List<AddedToken> addedTokens(Json value) throws Refusal {
    if (value instanceof Json.Null) {
      return List.of();
    }
    if (!(value instanceof Json.Arr(List<Json> items))) {
      throw malformed("tokenizer.json", "\"added_tokens\" is not an array");
    }
    var tokens = new ArrayList<AddedToken>();
    for (Json item : items) {
      if (!(item instanceof Json.Obj token)
          || !(token.get("id") instanceof Json.Int(long id))
          || id < 0
          || id > Integer.MAX_VALUE
          || !(token.get("content") instanceof Json.Str(String content))) {
        throw malformed("tokenizer.json", "an entry of \"added_tokens\" lacks id or content");
      }
      tokens.add(
          new AddedToken(
              (int) id,
              content,
              flag(token, "single_word"),
              flag(token, "lstrip"),
              flag(token, "rstrip"),
              flag(token, "normalized"),
              flag(token, "special")));
    }
    return tokens;
  }

  private static boolean flag(Json.Obj token, String name) {
    return token.get(name) instanceof Json.Bool(boolean value) && value;
  }

  /** The file with these tokens at the end of its {@code added_tokens}. */
  private String withAddedTokens(String tokenizerJson, List<AddedToken> tokens) {
    if (tokens.isEmpty()) {
      return tokenizerJson;
    }
    String added = ConfiguredTokens.asJson(tokens);
    if (addedTokensEnd < 0) {
      int object = tokenizerJson.indexOf('{') + 1;
      return tokenizerJson.substring(0, object)
          + "\"added_tokens\":["
          + added
          + "],"
          + tokenizerJson.substring(object);
    }
    String before = tokenizerJson.substring(0, addedTokensEnd).stripTrailing();
    return before
        + (before.endsWith("[") ? "" : ",")
        + added
        + tokenizerJson.substring(addedTokensEnd);
  }

  /**
   * Every {@code *_token} that is a text, then those of {@code extra_special_tokens} when that is
   * an object.
   */
  private SequencedMap<String, Json> namedTokens(Json.Obj config) throws Refusal {
    var tokens = new LinkedHashMap<String, Json>();
    addTokens(config, tokens);
    if (config.get("extra_special_tokens") instanceof Json.Obj extra) {
      addTokens(extra, tokens);
    }
    if (config.get("added_tokens_decoder") == null) {
      // The older layout, where this file has the last word.
      addTokens(readObject("special_tokens_map.json"), tokens);
    }
    return tokens;
  }

  private static void addTokens(Json.Obj from, Map<String, Json> tokens) {
    from.fields()
        .forEach(
            (name, value) -> {
              if (name.endsWith("_token") && tokenText(value) != null) {
                tokens.put(name, value);
              }
            });
  }

  private static SequencedMap<String, String> texts(SequencedMap<String, Json> tokens) {
    var texts = new LinkedHashMap<String, String>();
    tokens.forEach((name, value) -> texts.put(name, String.valueOf(tokenText(value))));
    return texts;
  }

  /** A token written as a string or as an object with {@code content}. */
  private static @Nullable String tokenText(Json value) {
    if (value instanceof Json.Obj token) {
      Json content = token.get("content");
      return content == null ? null : content.asString();
    }
    return value.asString();
  }

  private ChatTemplates chatTemplates(Json.Obj config) throws Refusal {
    SequencedMap<String, String> byName = templatesInFiles();
    if (byName.isEmpty()) {
      byName = templatesInConfig(config);
    }
    String ofProcessor = null;
    if (!Files.exists(folder.resolve("chat_template.jinja"))) {
      Json template = readObject("chat_template.json").get("chat_template");
      ofProcessor = template == null ? null : template.asString();
    }
    return new ChatTemplates(byName, ofProcessor);
  }

  private SequencedMap<String, String> templatesInFiles() throws Refusal {
    var byName = new LinkedHashMap<String, String>();
    String main = readText("chat_template.jinja", MAX_CONFIG_BYTES);
    if (main != null) {
      byName.put("default", main);
    }
    for (String file : additionalTemplateFiles()) {
      String text = readText("additional_chat_templates/" + file, MAX_CONFIG_BYTES);
      if (text != null) {
        byName.put(file.substring(0, file.length() - ".jinja".length()), text);
      }
    }
    return byName;
  }

  private SortedSet<String> additionalTemplateFiles() throws Refusal {
    var names = new TreeSet<String>();
    Path directory = folder.resolve("additional_chat_templates");
    if (!Files.isDirectory(directory)) {
      return names;
    }
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory, "*.jinja")) {
      for (Path file : files) {
        names.add(String.valueOf(file.getFileName()));
        if (names.size() > MAX_ADDITIONAL_TEMPLATES) {
          throw new Refusal(
              Kind.TOO_LARGE,
              directory,
              "has more than " + MAX_ADDITIONAL_TEMPLATES + " templates",
              "remove those that the model does not use");
        }
      }
    } catch (IOException e) {
      throw unreadable(directory, e);
    }
    return names;
  }

  private static SequencedMap<String, String> templatesInConfig(Json.Obj config) {
    var byName = new LinkedHashMap<String, String>();
    switch (config.get("chat_template")) {
      case Json.Str(String only) -> byName.put("default", only);
      case Json.Arr(List<Json> named) -> {
        for (Json item : named) {
          if (item instanceof Json.Obj template
              && template.get("name") instanceof Json.Str(String name)
              && template.get("template") instanceof Json.Str(String text)) {
            byName.put(name, text);
          }
        }
      }
      case Json.Obj(SequencedMap<String, Json> fields) ->
          fields.forEach(
              (name, value) -> {
                if (value instanceof Json.Str(String text)) {
                  byName.put(name, text);
                }
              });
      case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _ -> {}
      case null -> {}
    }
    return byName;
  }

  /**
   * vLLM 0.32 {@code config/model.py} (tokenizer_mode by architecture) and {@code
   * renderers/online_renderer.py} (use_harmony). Without a config.json the four control tokens of
   * the Harmony format tell.
   */
  private static Optional<String> ownChatRenderer(
      Json.Obj modelConfig, List<AddedToken> addedTokens) {
    if (modelConfig.get("model_type") instanceof Json.Str(String type)) {
      if (type.equals("gpt_oss")) {
        return Optional.of("harmony");
      }
    } else if (isHarmonyVocabulary(addedTokens)) {
      return Optional.of("harmony");
    }
    if (!(modelConfig.get("architectures") instanceof Json.Arr(List<Json> architectures))
        || architectures.isEmpty()
        || !(architectures.getFirst() instanceof Json.Str(String architecture))) {
      return Optional.empty();
    }
    return switch (architecture) {
      case "KimiK3ForConditionalGeneration" -> Optional.of("kimi_k3");
      case "DeepseekV32ForCausalLM" -> Optional.of("deepseek_v32");
      case "DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration" ->
          Optional.of("deepseek_v4");
      case "DeepseekV41ForCausalLM" -> Optional.of("deepseek_v41");
      case "InklingForCausalLM", "InklingForConditionalGeneration" -> Optional.of("inkling");
      default -> Optional.empty();
    };
  }

  private static boolean isHarmonyVocabulary(List<AddedToken> addedTokens) {
    var wanted = new TreeSet<>(List.of("<|channel|>", "<|message|>", "<|call|>", "<|constrain|>"));
    addedTokens.forEach(token -> wanted.remove(token.content()));
    return wanted.isEmpty();
  }

  /** The object in that file; an empty one when there is no such file. */
  private Json.Obj readObject(String file) throws Refusal {
    String text = readText(file, MAX_CONFIG_BYTES);
    if (text == null) {
      return Json.Obj.of(Map.of());
    }
    try {
      if (TokenizerJsonParser.read(text) instanceof Json.Obj object) {
        return object;
      }
    } catch (JacksonException e) {
      throw malformed(file, "is not valid JSON" + position(e));
    }
    throw malformed(file, "is not a JSON object");
  }

  private @Nullable String readText(String file, long maxBytes) throws Refusal {
    return readText(folder.resolve(file), maxBytes);
  }

  private static @Nullable String readText(Path path, long maxBytes) throws Refusal {
    try (InputStream in = Files.newInputStream(path)) {
      byte[] bytes = in.readNBytes((int) maxBytes + 1);
      if (bytes.length > maxBytes) {
        throw new Refusal(
            Kind.TOO_LARGE, path, "has more than the " + maxBytes + " bytes allowed", REPLACE);
      }
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    } catch (NoSuchFileException _) {
      return null;
    } catch (CharacterCodingException _) {
      throw new Refusal(Kind.MALFORMED, path, "is not valid UTF-8", REPLACE);
    } catch (IOException e) {
      throw unreadable(path, e);
    }
  }

  private static Refusal unreadable(Path path, IOException e) {
    return new Refusal(
        Kind.UNREADABLE,
        path,
        "cannot be read (" + e.getClass().getSimpleName() + ")",
        "check the file's type and permissions");
  }

  private Refusal malformed(String file, String what) {
    return new Refusal(Kind.MALFORMED, folder.resolve(file), what, REPLACE);
  }

  private static String position(JacksonException e) {
    var location = e.getLocation();
    return location == null
        ? ""
        : " at line " + location.getLineNr() + ", column " + location.getColumnNr();
  }

  /** Carries a problem up to {@link #read}; never leaves this class. */
  private static final class Refusal extends Exception {
    private final transient FolderProblem problem;

    Refusal(Kind kind, Path file, String what, String nextStep) {
      super(what, null, false, false);
      this.problem = new FolderProblem(kind, file, what, nextStep);
    }
  }
}
