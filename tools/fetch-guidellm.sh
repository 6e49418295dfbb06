#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings GuideLLM, a load tool for LLM servers, to <local>/guidellm-venv (bin/guidellm). About 5 GB,
# most of it the torch for GPUs that it depends on.
what=guidellm
. "$(dirname "${BASH_SOURCE[0]}")/fetching.sh"

version=0.8.1
uv=0.13.9
home="$local_dir/guidellm-venv"

if has_stamp "$home" "$version" && [ -x "$home/bin/guidellm" ]; then
  say "$version is there"
  exit 0
fi

need_disk 9000
python="$(find_python 10 13)"
"$python" -m venv "$scratch/uv" ||
  fail "$python cannot make a virtual environment" "Debian and Ubuntu: apt-get install python3-venv"
attempt "$scratch/uv.log" "$scratch/uv/bin/python" -m pip install --no-input "uv==$uv" ||
  fail "pip could not install uv==$uv" "make a network that pip can use reachable and repeat"
say "guidellm $version and its packages; uv tells its progress"
export UV_PYTHON_DOWNLOADS=never UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-300}"
"$scratch/uv/bin/uv" venv --quiet --relocatable --python "$python" "$scratch/venv" ||
  fail "uv could not make a virtual environment with $python" "set KVOY_PYTHON to another Python 3.10 ... 3.13"
"$scratch/uv/bin/uv" pip install --python "$scratch/venv/bin/python" "guidellm==$version" ||
  fail "uv could not install guidellm==$version" \
    "make the package index that uv uses reachable (UV_INDEX_URL) and repeat" \
    "what was downloaded stays in uv's cache, so a repeat goes on from there"
"$scratch/venv/bin/guidellm" --version >/dev/null 2>&1 || fail "guidellm does not start"
put_stamp "$scratch/venv" "$version"
move_into_place "$scratch/venv" "$home"
say "$version is ready: $home/bin/guidellm"
