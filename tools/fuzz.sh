#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target for the time its annotation declares, one after the other.
#   tools/fuzz.sh [NAME]   only the classes whose name contains NAME
# A JVM of Jazzer fuzzes one target only, hence a run for each @FuzzTest method. Inputs that make a target
# fail are kept in the module's src/test/resources, where the ordinary tests replay them for ever.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
cd "$repo"

failed=
found=0
for file in $(find . -path './*/src/test/java/*' -name "*${1:-}*FuzzTest.java" | sort); do
  module="$(printf '%s' "$file" | cut -d/ -f2)"
  class="$(basename "$file" .java)"
  # The method is on the first line after the annotation that names one.
  for method in $(awk '/@FuzzTest/ {look = 1; next} look && match($0, /[a-zA-Z0-9_]+\(/) {print substr($0, RSTART, RLENGTH - 1); look = 0}' "$file"); do
    found=$((found + 1))
    echo "== $module: $class.$method"
    JAZZER_FUZZ=1 tools/mvn.sh -q test -pl "$module" -am -Dfuzz.exclude=none -Dtest="$class#$method" \
      -Dsurefire.failIfNoSpecifiedTests=false || failed="$failed $class.$method"
  done
done

if [ "$found" -eq 0 ]; then
  echo "make fuzz: no fuzz target${1:+ named *$1*} found, see README" >&2
  exit 2
fi
if [ -n "$failed" ]; then
  echo "fuzz: $found targets, failed:$failed" >&2
  exit 1
fi
echo "fuzz: $found targets, none failed"
