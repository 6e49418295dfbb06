#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the main class of a built module: tools/launch.sh MODULE MAIN_CLASS JVM_FLAGS [ARGUMENT]...
# JVM_FLAGS is one word with spaces in it, possibly empty, or @FILE, a file of options in the
# repository. Needs what `make build` left in MODULE/target and a Java runtime; no Maven, no network.
# KVOY_JAVA_OPTS is added last and so wins. What `make aot` left there is used while it fits the jar.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
module="$1" main_class="$2" flags="$3"
shift 3

jar=
for candidate in "$repo/$module/target/kvoy-$module-"*.jar; do
  case "$candidate" in
    *-tests.jar | *-sources.jar | *-javadoc.jar | *'*.jar') ;;
    *) jar="$candidate" ;;
  esac
done
if [ -z "$jar" ] || [ ! -d "$repo/$module/target/lib" ]; then
  echo "kvoy: $module is not built (looked for $module/target/kvoy-$module-*.jar and $module/target/lib). Run: make build" >&2
  exit 1
fi

# JDK 25 would print a warning for each: native access (tokenizers, Netty), Unsafe (Netty, MessagePack).
quiet="--enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow"
java_home="$("$repo/tools/java-home.sh" --runtime)"
case "$flags" in
  @*) options=("@$repo/${flags#@}") ;;
  *) read -r -a options <<<"$flags" ;;
esac
aot="$repo/$module/target/kvoy-$module.aot"
if [ "$aot" -nt "$jar" ]; then
  # A cache that another JVM or another garbage collector made is passed over without a word.
  options+=("-XX:AOTCache=$aot" -Xlog:aot=off -Xlog:cds=off)
fi
# shellcheck disable=SC2086 # quiet and KVOY_JAVA_OPTS are lists
exec "$java_home/bin/java" $quiet ${options[@]+"${options[@]}"} ${KVOY_JAVA_OPTS:-} -cp "$jar:$repo/$module/target/lib/*" "$main_class" "$@"
