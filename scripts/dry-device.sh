#!/usr/bin/env bash
# A device's first hour, tried in an empty root folder: scripts/dry-device.sh BUNDLE DRIVER LIBRARIES [PIECE...]
#
# BUNDLE: of `make device-bundle`, or the command, of which one is made; DRIVER: the folder of the tests' libcuda.so.1
# (build/cuda/simulated_driver); LIBRARIES: NVRTC and nvJitLink, the toolkit's folder or a Python environment with NVIDIA's
# wheels. The root holds these, a shell and the few programs that scripts/first-device.sh calls: no compiler, no network, no
# Python. PIECE: check and train unless others are named. Exits with 77 where there is no NVRTC or no namespace may be made,
# which takes user namespaces, or root.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
bundle=$(realpath "$1") driver=$(realpath "$2") libraries=$(realpath "$3")
shift 3
[ $# -gt 0 ] || set -- check train
in_namespace=(unshare -m)
[ "$(id -u)" = 0 ] || in_namespace=(unshare -r -m)
"${in_namespace[@]}" true || exit 77
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
if [[ $bundle != *.gz ]]; then
  "$(dirname "$0")/device-bundle.sh" "$bundle" "$root/bundle.tar.gz"
  bundle=$root/bundle.tar.gz
fi
mkdir -p "$root"/{bin,tmp,proc,dev,device,driver,environment/bin,lib64}
ln -s bin "$root/sbin"
tar -C "$root/device" -xzf "$bundle"
cp -L "$driver/libcuda.so.1" "$root/driver"
# NVIDIA's libraries, laid out as in their wheels, where the python3 next to them finds them.
mkdir -p "$root/environment/lib/python3/site-packages/nvidia/all/lib"
packages=$root/environment/lib/python3/site-packages/nvidia/all/lib
find -L "$libraries" \( -name 'libnvrtc*.so.*' -o -name 'libnvJitLink.so.*' \) ! -name '*alt*' ! -path '*/stubs/*' \
  -exec cp -L -n {} "$packages" \; 2>/dev/null || true
ls "$packages"/libnvrtc.so.* >/dev/null || { echo "there is no NVRTC in $libraries" >&2; exit 77; }
printf '#!/bin/sh\nexit 1\n' >"$root/environment/bin/python3"
for program in bash sh env timeout awk sed grep cut tail mkdir dirname cat wc sleep kill; do
  path=$(command -v "$program") || continue
  case $path in /*) cp -L "$path" "$root/bin/$program" ;; esac
done
# The system libraries that they and the command need, at the same paths as on the system.
{ ldd "$root"/bin/* 2>/dev/null || true; ldd "$root/device/bin/isochron"; } |
  grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L -n "$library" "$root$library"
done
for library in libdl.so.2 librt.so.1 libpthread.so.0; do  # which NVIDIA's libraries name
  path=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk -v name=$library '$1 == name && !n++ {print $NF}') || path=
  [ -z "$path" ] || { mkdir -p "$root$(dirname "$path")"; cp -L -n "$path" "$root$path"; }
done
inside='mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" /bin/env -i PATH=/bin:/environment/bin HOME=/tmp \
  /bin/bash /device/scripts/first-device.sh --dry /driver --out /tmp/first-device --jobs 2 "$@"'
"${in_namespace[@]}" sh -c "$inside" "$root" "$@"
