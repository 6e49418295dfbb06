# SPDX-License-Identifier: Apache-2.0
# Sourced by the fetch-*.sh scripts: where things go, how progress and failure are told, how a
# half-finished fetch leaves nothing behind.
#
# Everything lands in ${KVOY_LOCAL:-<repository>/.local}. A thing is built in a scratch folder beside
# its final place and renamed at the end, so whatever stands there is whole. The stamp file inside
# names the version; the same version is not fetched twice.

set -euo pipefail

repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
local_dir="${KVOY_LOCAL:-$repo/.local}"
stamp_name=.kvoy-version
what="${what:?set what=<name of the thing> before sourcing fetching.sh}"

say() { printf 'kvoy tools: %s: %s\n' "$what" "$*" >&2; }

# fail "what went wrong" ["what to do next"]...
fail() {
  printf 'kvoy tools: %s: ERROR: %s\n' "$what" "$1" >&2
  shift
  local line
  for line in "$@"; do printf 'kvoy tools: %s:   %s\n' "$what" "$line" >&2; done
  exit 1
}

mkdir -p "$local_dir" 2>/dev/null ||
  fail "cannot create the folder $local_dir" "set KVOY_LOCAL to a folder that you may write"
local_dir="$(cd "$local_dir" && pwd -P)"

# A scratch folder on the same file system as the final place; removed however the script ends.
scratch="$(mktemp -d "$local_dir/.fetch-$what.XXXXXX")" ||
  fail "cannot write to $local_dir" "set KVOY_LOCAL to a folder that you may write"
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# has_stamp FOLDER VERSION
has_stamp() { [ -f "$1/$stamp_name" ] && [ "$(cat "$1/$stamp_name")" = "$2" ]; }

# put_stamp FOLDER VERSION
put_stamp() { printf '%s\n' "$2" >"$1/$stamp_name"; }

# move_into_place FROM TO: the old one steps aside first, so TO is never half of each.
move_into_place() {
  if [ -e "$2" ]; then mv "$2" "$scratch/replaced"; fi
  mkdir -p "$(dirname "$2")"
  mv "$1" "$2"
}

# need_disk MEGABYTES
need_disk() {
  local free_kib
  free_kib="$(df -Pk "$local_dir" | awk 'NR == 2 {print $4}')"
  [ "$free_kib" -ge $(($1 * 1024)) ] ||
    fail "needs $1 MB free in $local_dir, $((free_kib / 1024)) MB are left" \
      "free some space, or set KVOY_LOCAL to a folder on a larger disk"
}

# find_python OLDEST_MINOR NEWEST_MINOR: prints a Python 3 within these minors that can make venvs.
find_python() {
  local oldest="$1" newest="$2" candidate minor=
  for candidate in ${KVOY_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
    minor="$("$candidate" -c 'import sys, venv, ensurepip; print(sys.version_info.minor)' 2>/dev/null)" || continue
    if [ "$minor" -ge "$oldest" ] && [ "$minor" -le "$newest" ]; then
      command -v "$candidate"
      return
    fi
  done
  local range="3.$oldest to 3.$newest"
  [ "$newest" -lt 99 ] || range="3.$oldest or newer"
  fail "no Python $range with the venv and ensurepip modules found" \
    "looked at: ${KVOY_PYTHON:-python3 and python3.10 ... python3.14 on PATH}" \
    "Debian and Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.12" \
    "or set KVOY_PYTHON to the interpreter to use"
}

# attempt LOG COMMAND...: runs with the output kept in LOG; on failure shows its end and returns 1.
attempt() {
  local log="$1"
  shift
  if "$@" >"$log" 2>&1; then return 0; fi
  say "failed: $*"
  tail -n 15 "$log" | sed 's/^/    | /' >&2
  return 1
}
