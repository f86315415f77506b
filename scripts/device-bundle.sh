#!/usr/bin/env bash
# Archives the command with everything needed to run it on another machine: scripts/device-bundle.sh COMMAND ARCHIVE
#
# Contains bin/isochron and, if it is next to COMMAND, bin/core_test, which tests the driver's contract, both stripped; lib, with
# their libraries except for the C and C++ ones, and libcudadevrt.a if the toolkit is installed; scripts/first-device.sh and what
# it reads: bench/peers, datasets and docs. NVIDIA's other libraries come from the machine: those of the toolkit or of python3's
# wheels. Fails above 60 MiB.
set -euo pipefail
command=$(realpath "$1")
archive=$(realpath -m "$2")
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"/{bin,lib,scripts,bench}
programs=("$command")
[ ! -x "$(dirname "$command")/core_test" ] || programs+=("$(dirname "$command")/core_test")
for program in "${programs[@]}"; do strip -o "$folder/bin/$(basename "$program")" "$program"; done
ldd "${programs[@]}" | awk '$2 == "=>" {print $3}' | grep -v -E '/(libc|libm|libgcc_s|libstdc\+\+)\.so' |
  sort -u | xargs -I{} cp -L {} "$folder/lib"
cp scripts/first-device.sh "$folder/scripts"
cp -r bench/peers "$folder/bench"
cp -r datasets docs "$folder"
runtime=${CUDA_PATH:-/usr/local/cuda}/lib64/libcudadevrt.a
if [ -f "$runtime" ]; then
  cp -L "$runtime" "$folder/lib"
else
  echo "there is no $runtime: conditions will run where the machine has one" >&2
fi
tar -C "$folder" -czf "$archive" .
[ "$(stat -c %s "$archive")" -le $((60 << 20)) ] || { echo "$archive is larger than 60 MiB" >&2; exit 1; }
printf '%s: %s\n' "$archive" "$(du -h "$archive" | cut -f 1)"
