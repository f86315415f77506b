#!/usr/bin/env bash
# install-check.sh BUILD_FOLDER: installs that build into a temporary prefix, builds the program of tests/install
# against it by find_package(isochron) alone, and runs it. Nothing of the source tree is on its include path.
set -euo pipefail
export ISOCHRON_CACHE=off  # leaves the user's cache alone
source_folder=$(cd "$(dirname "$0")/.." && pwd)
build_folder=$(cd "${1:?usage: install-check.sh BUILD_FOLDER}" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build_folder" --prefix "$work/prefix" >"$work/install.log" || {
  cat "$work/install.log" >&2
  exit 1
}
cp -r "$source_folder/tests/install" "$work/consumer"
cmake -S "$work/consumer" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  --log-level=WARNING
cmake --build "$work/build"
"$work/build/consumer"
[[ -s $work/prefix/share/doc/isochron/LICENSE ]] || { echo "no license was installed" >&2; exit 1; }
[[ -n $(ls "$work/prefix/share/isochron/datasets") ]] || { echo "no data sets were installed" >&2; exit 1; }
if [[ -x $work/prefix/bin/isochron ]]; then
  # An installation that was moved must find its own data sets, not those of the tree.
  mv "$work/prefix" "$work/moved"
  "$work/moved/bin/isochron" --help >/dev/null
  mv "$work/moved/share/isochron/datasets/co2_weekly.csv" "$work/co2.csv"
  echo "date,co2" >"$work/moved/share/isochron/datasets/co2_weekly.csv"
  "$work/moved/bin/isochron" train co2 --epochs 1 --steps 1 >"$work/log" 2>&1 && status=0 || status=$?
  { [[ $status -eq 3 ]] && grep -qF "$work/moved/share/isochron/datasets/co2_weekly.csv" "$work/log"; } || {
    echo "the moved command doesn't read its own data sets (status $status)" >&2
    cat "$work/log" >&2
    exit 1
  }
  mv "$work/co2.csv" "$work/moved/share/isochron/datasets/co2_weekly.csv"
  "$work/moved/bin/isochron" train co2 --epochs 1 --steps 1 >/dev/null
fi
echo "install: the installed package builds and runs a program"
