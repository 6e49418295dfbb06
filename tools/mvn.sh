#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Maven on a JDK that can build this repository, from its root, whichever folder this is called in.
# KVOY_MVN_ARGS is put in front of the arguments.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
command -v mvn >/dev/null || {
  echo "kvoy: mvn is not on PATH. Install Maven 3.8 or newer (apt-get install maven; brew install maven)." >&2
  exit 1
}
JAVA_HOME="$("$repo/tools/java-home.sh")"
export JAVA_HOME
cd "$repo"
# shellcheck disable=SC2086 # a list of arguments
exec mvn -B -ntp ${KVOY_MVN_ARGS:-} "$@"
