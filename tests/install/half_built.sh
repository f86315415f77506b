#!/usr/bin/env bash
# half_built.sh CMAKE: where the command alone is built, as after `make demo`, or nothing, an installation fails before
# it has written anything and says what to do; once every file is there, it goes through. The build can also be generated
# for several configurations, and as a part of another project.
set -euo pipefail
cmake=${1:?usage: half_built.sh CMAKE}
source_folder=$(cd "$(dirname "$0")/../.." && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cmake" -S "$source_folder" -B "$work/build dir" -G Ninja -DISOCHRON_TESTS=OFF -DISOCHRON_BENCH=OFF \
  --log-level=WARNING >/dev/null

fail() { echo "$1" >&2; cat "$work/log" >&2; exit 1; }
expect_refused() {
  if "$cmake" --install "$work/build dir" --prefix "$work/prefix" >"$work/log" 2>&1; then
    fail "an installation of $1 succeeded"
  fi
  [[ ! -e $work/prefix ]] || fail "an installation of $1 left something behind"
  grep -q "cmake --build" "$work/log" || fail "the message doesn't say what to run"
}

expect_refused "nothing"
mkdir -p "$work/build dir/bin"
touch "$work/build dir/bin/isochron"
expect_refused "the command alone"
! grep -q "bin/isochron$" "$work/log" || fail "the command is told missing, but it is there"

sed -n 's/^ *//; /\.\(a\|so\)$/p' "$work/log" | while read -r library; do
  mkdir -p "${library%/*}"
  touch "$library"
done
"$cmake" --install "$work/build dir" --prefix "$work/prefix" >"$work/log" 2>&1 || fail "a whole build is refused"
"$cmake" --install "$work/build dir" --config Other --prefix "$work/prefix" >"$work/log" 2>&1 ||
  fail "another configuration's name is refused where there is one configuration"
[[ -f $work/prefix/include/isochron/core/tensor/tensor.h && -f $work/prefix/bin/isochron ]] || fail "not all was installed"
[[ ! -e $work/prefix/include/isochron/data/pipeline/loader.h ]] || fail "a private header was installed"
grep -qx "CMAKE_BUILD_TYPE:STRING=Release" "$work/build dir/CMakeCache.txt" || fail "the default build isn't optimized"

"$cmake" -S "$source_folder" -B "$work/several" -G "Ninja Multi-Config" --log-level=WARNING >"$work/log" 2>&1 ||
  fail "several configurations can't be generated"
mkdir "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(parent LANGUAGES CXX)
add_subdirectory("$source_folder" isochron)
file(WRITE main.cc "int main() {}")
add_executable(parent main.cc)
target_link_libraries(parent PRIVATE isochron::isochron)
install(FILES main.cc DESTINATION share COMPONENT own)
END
for tests in OFF ON; do
  "$cmake" -S "$work/parent" -B "$work/parent/$tests" -G Ninja -DISOCHRON_TESTS=$tests --log-level=WARNING >"$work/log" 2>&1 ||
    fail "a parent project can't be generated, with tests $tests"
done
"$cmake" --install "$work/parent/OFF" --component own --prefix "$work/own" >"$work/log" 2>&1 ||
  fail "a parent can't install what is its own"
