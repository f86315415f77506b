#!/usr/bin/env bash
# Installs the missing packages that building and testing Isochron needs (Debian, Ubuntu). On another system it prints what is
# missing and exits 1. Doesn't call the package manager if nothing is missing. `install-deps.sh fuzz` also installs what the
# fuzzers need: clang 15 or later, as earlier versions lack _Float16. `install-deps.sh viewers` also installs the programs that
# open exports, and `install-deps.sh peers` what the environments of the compared frameworks are made with.
set -euo pipefail

packages=(
  g++ make cmake ninja-build git python3 clang-format
  libdnnl-dev libeigen3-dev libhwy-dev libcli11-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libisal-dev libzip-dev libdw-dev
  libprotobuf-dev protobuf-compiler libjpeg-dev libpng-dev libre2-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  libopenmpi-dev openmpi-bin libmpich-dev mpich
)

fuzz_packages=(clang-16 libclang-rt-16-dev libomp-16-dev)
viewer_packages=(graphviz python3-venv)
peer_packages=(python3-venv)
case ${1:-} in
fuzz) packages=("${fuzz_packages[@]}") ;;
viewers) packages=("${viewer_packages[@]}") ;;
peers) packages=("${peer_packages[@]}") ;;
esac

install_debian_packages() {
  local installed missing=() package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return

  local as_root=()
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "missing packages: ${missing[*]}" >&2
      echo "neither root nor sudo here; as root run: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# Elsewhere packages have other names, so check for what they provide: commands, and headers that the compiler finds. MPI is left
# out, because the build doesn't require it.
report_missing() {
  local missing=() tool probe header name
  for tool in g++ make cmake ninja git python3 clang-format protoc; do
    command -v "$tool" >/dev/null || missing+=("command $tool")
  done
  if command -v g++ >/dev/null; then
    for probe in "dnnl.hpp:oneDNN 2.6" "hwy/highway.h:Highway 1.0" "CLI/CLI.hpp:CLI11" "fmt/format.h:{fmt} 9" \
      "nlohmann/json.hpp:nlohmann/json" "zlib.h:zlib" "isa-l/crc.h:ISA-L" "zip.h:libzip" "elfutils/libdwfl.h:libdw" "google/protobuf/message_lite.h:protobuf 3.21" \
      "jpeglib.h:libjpeg-turbo" "png.h:libpng 1.6" "re2/re2.h:RE2" "gtest/gtest.h:GoogleTest" "gmock/gmock.h:GoogleMock" \
      "benchmark/benchmark.h:Google Benchmark" "Eigen/Core:Eigen 3.4"; do
      header=${probe%%:*} name=${probe#*:}
      printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$header" |
        g++ -E -x c++ -I/usr/include/eigen3 - >/dev/null 2>&1 || missing+=("library $name (header $header)")
    done
  fi
  [[ ${#missing[@]} -eq 0 ]] && return
  echo "this is neither Debian nor Ubuntu, so nothing is installed automatically. Missing:" >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
}

if [[ ${1:-} == viewers ]] && ! command -v apt-get >/dev/null; then
  echo "the tests of exports use chromium, dot (Graphviz) and python3 with venv, and are skipped without"
  exit 0
fi
# For the fuzzers the compiler tells the rest: -DCMAKE_CXX_COMPILER names another one.
if [[ ${1:-} == fuzz ]] && ! command -v apt-get >/dev/null; then
  command -v clang++-16 >/dev/null || { echo "the fuzzers need clang++-16 with its runtime and OpenMP" >&2; exit 1; }
  exit 0
fi

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  install_debian_packages
  if [[ ${1:-} == viewers ]]; then  # Ubuntu has it only as a snap
    packages=(chromium)
    (install_debian_packages) || echo "Chromium isn't to be had as a package here; tests that need it are skipped" >&2
  fi
elif [[ ${1:-} == peers ]]; then
  command -v python3 >/dev/null || { echo "the frameworks to compare with need python3 with venv" >&2; exit 1; }
else
  report_missing
fi
