#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the home of a JDK of at least the wanted version; says where it looked when there is none.
#   tools/java-home.sh            a JDK (with javac), to build
#   tools/java-home.sh --runtime  anything with bin/java, to run
# Order: JAVA_HOME, java on PATH, the system's JVM folders, macOS java_home, SDKMAN, asdf and mise,
# a folder jdk* in <local>.
set -uo pipefail

wanted=25
program=javac
[ "${1:-}" != --runtime ] || program=java
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

# Feature version of the Java in folder $1; 0 when it is not one. The release file is read where there
# is one: starting each candidate would cost a JVM start each.
feature() {
  local text
  text="$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null | head -n 1)"
  if [ -z "$text" ]; then
    text="$("$1/bin/java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)"
  fi
  printf '%s' "${text:-0}"
}

seen=
try() {
  local home="$1"
  if [ -z "$home" ] || [ ! -x "$home/bin/$program" ]; then return 0; fi
  local version
  version="$(feature "$home")"
  if [ "$version" -ge "$wanted" ]; then
    printf '%s\n' "$home"
    exit 0
  fi
  seen="$seen
  $home is version $version"
}

home_of_java_on_path() {
  local java target
  java="$(command -v java)" || return 0
  while [ -L "$java" ]; do
    target="$(readlink "$java")"
    case "$target" in
      /*) java="$target" ;;
      *) java="$(dirname "$java")/$target" ;;
    esac
  done
  (cd "$(dirname "$java")/.." && pwd -P)
}

try "${JAVA_HOME:-}"
try "$(home_of_java_on_path)"
for folder in /usr/lib/jvm/* /usr/java/* /opt/java/* /opt/jdk* /Library/Java/JavaVirtualMachines/*/Contents/Home; do
  try "$folder"
done
if [ -x /usr/libexec/java_home ]; then try "$(/usr/libexec/java_home -v "$wanted+" 2>/dev/null)"; fi
for folder in "${SDKMAN_DIR:-${HOME:-}/.sdkman}"/candidates/java/* "${HOME:-}"/.asdf/installs/java/* \
  "${HOME:-}"/.local/share/mise/installs/java/* "${HOME:-}"/.jdks/* "${KVOY_LOCAL:-$repo/.local}"/jdk*; do
  try "$folder"
done

cat >&2 <<END
kvoy: no JDK $wanted or newer with bin/$program found.
Looked at JAVA_HOME (${JAVA_HOME:-not set}), java on PATH, /usr/lib/jvm, macOS java_home, SDKMAN, asdf, mise.${seen:+
Found, but too old:$seen}
Install one (Debian and Ubuntu with the Adoptium repository: apt-get install temurin-$wanted-jdk;
macOS: brew install openjdk@$wanted; anywhere: sdk install java) or set JAVA_HOME to it.
END
exit 1
