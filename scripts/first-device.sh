#!/usr/bin/env bash
# What to run on a device that has not run Isochron yet, in pieces of ten minutes at most each, after which no further step
# of one begins:
#
#     scripts/first-device.sh [--bin FOLDER] [--out FOLDER] [--jobs N] [--ops "NAME..."] PIECE...
#
#     check    the driver by its contract, the libraries, a small captured step and one with a conditional update
#     verify   every op, and every part of `doctor --list-parts`, on the device and on the CPU, a process each
#     train    every bundled model in every precision, some steps; errors that must end with their exit codes
#     memcheck, racecheck, initcheck    compute-sanitizer over each op and a training
#     bench    the time of a step in every precision
#     profile  the same kernel by kernel, and with one kernel at a time
#     peers    the same beside PyTorch, which python3 must have, in turns; needs no `bench` before it
#     flat     long runs that must be found flat, and `isochron compare` of memory and transfers
#
# --dry FOLDER: all of that without a device, over a libcuda.so.1 of FOLDER whose kernels do nothing, as the build's
# simulated_driver has it: what is printed tells nothing but that the commands run. Programs of NVIDIA's that aren't there
# are left out, and so is PyTorch.
#
# --bin: a folder with `isochron` and the tests of the driver's contract, `core_test` (build/release/bin, else bin beside
# this script's folder); --out: a folder for a log of each step, steps.jsonl, a line a step with its exit code and seconds,
# and PIECE.json, which has those of the piece; --ops: these ops alone. Exits with 1 if a step failed or was left out.
set -uo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
bin=$here/build/release/bin
[ -x "$bin/isochron" ] || bin=$here/bin
out=first-device
jobs=8
ops=
dry=
pieces=()
while [ $# -gt 0 ]; do
  case $1 in
    --bin) bin=$2; shift ;;
    --out) out=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --ops) ops=$2; shift ;;
    --dry) dry=$(cd "$2" && pwd) || exit 2; shift ;;
    check | verify | train | memcheck | racecheck | initcheck | bench | profile | peers | flat) pieces+=("$1") ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
  esac
  shift
done
[ ${#pieces[@]} -gt 0 ] || { echo "no piece is named; see --help" >&2; exit 2; }
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
bin=$(cd "$bin" && pwd) || exit 2
isochron=$bin/isochron
: >>"$out/steps.jsonl" && before=$(wc -l <"$out/steps.jsonl") || exit 2  # lines of pieces that ran earlier
export ISOCHRON_DATASETS=${ISOCHRON_DATASETS:-$here/datasets}
own_libraries=${LD_LIBRARY_PATH:-}  # what python3 runs with
[ -d "$here/lib" ] && export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
on_device=(--device cuda)
if [ -n "$dry" ]; then
  [ -e "$dry/libcuda.so.1" ] || { echo "there is no libcuda.so.1 in $dry" >&2; exit 2; }
  export LD_LIBRARY_PATH=$dry${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  on_device+=(--plain-kernels)  # NVIDIA's kernel libraries need NVIDIA's driver
  export ISOCHRON_CACHE=off     # everything is compiled, and nothing is cached for real devices
fi
# Running jobs end with this script: they would slow down whatever comes next.
end_all() { kill $(jobs -rp) 2>/dev/null; wait; exit 143; }
trap end_all TERM INT

# step NAME SECONDS EXIT COMMAND...: one run, which must end with EXIT within SECONDS. Without a device it may be another:
# in_dry=PATTERN step ..., and must say something then, which tells that it has come as far: in_dry_says=PATTERN step ...
step() {
  local name=$1 seconds=$2 expected=$3 began=$EPOCHREALTIME rc took ok=true
  shift 3
  if [ -z "$dry" ] && [ $SECONDS -ge "$deadline" ]; then
    printf '{"step": "%s", "ok": false, "left_out": "the ten minutes of its piece are over"}\n' "$name" >>"$out/steps.jsonl"
    printf 'LEFT OUT %s: the ten minutes of its piece are over\n' "$name"
    return 1
  fi
  [ -z "$dry" ] || expected=${in_dry:-$expected}
  (cd "$out" && exec timeout -k 5 "$seconds" "$@") >"$out/$name.txt" 2>&1 </dev/null &
  wait $!
  rc=$?
  took=$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $began}")
  [[ $rc =~ ^($expected)$ ]] || ok=false
  [ -z "$dry" ] || [ -z "${in_dry_says:-}" ] || grep -qE "$in_dry_says" "$out/$name.txt" || ok=false
  printf '{"step": "%s", "rc": %d, "expected": "%s", "ok": %s, "seconds": %s}\n' "$name" $rc "$expected" $ok "$took" \
    >>"$out/steps.jsonl"
  if $ok; then
    printf 'ok      %-34s %6s s\n' "$name" "$took"
  else
    printf 'FAILED  %-34s %6s s, exit %d, expected %s\n%s\n' "$name" "$took" $rc "$expected" \
      "$(tail -n 6 "$out/$name.txt" | cut -c 1-300 | sed 's/^/          /')"
    return 1
  fi
}
# Runs a function that makes a step in parallel with others, at most $jobs at a time.
also() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  { trap end_all TERM INT; "$@"; } &
}

models="regress mlp digits lenet resnet20 lstm gru tcn gpt"
precisions="f32 tf32 mixed_bf16 mixed_f16 mixed_fp8"
cases="tiny mlp cnn resnet20 unet lstm gpt"

# Whether a program that comes with the device is to be run.
has() { [ -z "$dry" ] || command -v "$1" >/dev/null; }

# verify_one NAME SECONDS --op|--part WHICH [COMMAND...]: the check of an op or a part, by a command that runs it.
verify_one() {
  local name=$1 seconds=$2 which=("$3" "$4")
  shift 4
  in_dry="0|1" in_dry_says='agree with the CPU|calls differ' step "$name" "$seconds" 0 "$@" \
    "$isochron" doctor "${on_device[@]}" --verify "${which[@]}"
}

# train_on NAME SECONDS EXIT ARGUMENT...: a training on the device. Kernels that do nothing count no rows, so that means aren't
# numbers.
train_on() {
  local name=$1 seconds=$2 expected=$3
  shift 3
  in_dry="0|1" in_dry_says='resident memory' step "$name" "$seconds" "$expected" "$isochron" train "$@" "${on_device[@]}"
}

check() {
  ! has nvidia-smi || step nvidia-smi 30 0 nvidia-smi
  step doctor 60 0 "$isochron" doctor
  if [ -x "$bin/core_test" ]; then
    in_dry="0|1" in_dry_says='tests from 1 test suite ran' step contract 120 0 \
      env ISOCHRON_TEST_DRIVER=machine "$bin/core_test" --gtest_filter='Over/Contexts.*'
  fi
  # With mixed_f16 the update is conditional, which takes libcudadevrt.a.
  verify_one verify-add 60 --op add && train_on train-regress 60 0 regress --epochs 1 --steps 20 &&
    train_on train-regress-conditional 60 0 regress --epochs 1 --steps 20 --precision mixed_f16
}

verify() {
  local op part
  for part in $("$isochron" doctor --list-parts); do
    also verify_one "verify-part-$part" 180 --part "$part"
  done
  for op in ${ops:-$("$isochron" doctor --list-ops)}; do
    also verify_one "verify-$op" 180 --op "$op"
  done
  wait
}

train() {
  local model precision optimizer
  for model in $models; do
    local data=()
    [ "$model" = gpt ] && data=(--data "$here/docs")
    for precision in $precisions; do
      also train_on "train-$model-$precision" 100 0 "$model" "${data[@]}" --epochs 1 --steps 20 --precision "$precision" \
        --json "$model-$precision.json"
    done
    also step "train-$model-cpu" 100 0 "$isochron" train "$model" "${data[@]}" --epochs 1 --steps 20 --threads 2 --json "$model-cpu.json"
  done
  for optimizer in amsgrad adamw adamax nadam lamb lion rprop rmsprop adagrad adadelta adafactor nesterov; do
    also train_on "train-digits-$optimizer" 100 0 digits --epochs 1 --steps 20 --optimizer $optimizer
  done
  also train_on train-accumulate 100 0 digits --epochs 1 --steps 20 --accumulate 4
  also train_on train-not-finite 100 1 digits --epochs 1 --learning-rate 1e30
  also step train-out-of-memory 100 4 "$isochron" train digits "${on_device[@]}" --batch 1024 --memory-limit 4MiB
  wait
}

sanitize() {  # sanitize TOOL
  local op under=()
  ! has compute-sanitizer || under=(compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 5)
  for op in ${ops:-$("$isochron" doctor --list-ops)}; do
    also verify_one "$1-$op" 180 --op "$op" "${under[@]}"
  done
  in_dry="0|1" in_dry_says='resident memory' also step "$1-digits" 300 0 "${under[@]}" \
    "$isochron" train digits "${on_device[@]}" --epochs 1 --steps 5
  wait
}
memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }
initcheck() { sanitize initcheck; }

bench() {
  local name precision
  for precision in f32 tf32 mixed_bf16; do
    for name in $cases; do
      step "bench-$name-$precision" 60 0 "$isochron" bench "${on_device[@]}" --case "$name" --precision $precision --seconds 1 --json
    done
  done
}

profile() {
  local name
  for name in $cases; do
    step "bench-$name-in-order" 60 0 "$isochron" bench "${on_device[@]}" --case "$name" --in-order --seconds 1 --json
    step "profile-$name" 60 0 "$isochron" bench "${on_device[@]}" --case "$name" --seconds 1 --profile
    step "profile-$name-mixed_bf16" 60 0 "$isochron" bench "${on_device[@]}" --case "$name" --precision mixed_bf16 --seconds 1 --profile
  done
}

torch() {  # torch NAME CASE VARIANT SECONDS
  [ -z "$dry" ] || return 0  # PyTorch detects that the driver isn't NVIDIA's
  step "$1" 150 0 env LD_LIBRARY_PATH="$own_libraries" TORCHINDUCTOR_CACHE_DIR="$out/inductor" \
    python3 "$here/bench/peers/torch_peer.py" --case "$2" --variant "$3" --device cuda --seconds "$4"
}

peers() {
  local name pair precision round variant pairs=()
  for precision in f32 mixed_bf16; do
    for name in $cases; do
      case $name-$precision in
        lstm-f32) variant=eager ;;  # what cuDNN computes, PyTorch doesn't compile
        lstm-*) variant=bf16 ;;
        tiny-mixed_bf16 | unet-mixed_bf16) continue ;;
        *-f32) variant=compile ;;
        *) variant=bf16_compile ;;
      esac
      pairs+=("$name $precision $variant")
    done
  done
  # What is compiled once is kept: compile all at the same time, without timing anything meanwhile.
  for pair in "${pairs[@]}"; do
    read -r name precision variant <<<"$pair"
    also torch "compiled-$name-$precision" "$name" "$variant" 0.1
  done
  wait
  for round in 1 2; do
    for pair in "${pairs[@]}"; do
      read -r name precision variant <<<"$pair"
      step "isochron-$name-$precision-$round" 60 0 "$isochron" bench "${on_device[@]}" --case "$name" \
        --precision "$precision" --seconds 0.5 --json
      torch "pytorch-$name-$precision-$round" "$name" "$variant" 0.5
    done
  done
  [ -z "$dry" ] || return 0
  python3 - "$out" "${pairs[@]}" <<'END' | tee "$out/beside-pytorch.txt"
import json, pathlib, statistics, sys
def p50(name):
    found = [json.loads(line)["p50_us"] for path in sorted(pathlib.Path(sys.argv[1]).glob(name + "-[12].txt"))
             for line in path.read_text().splitlines() if line.startswith("{")]
    return statistics.median(found) if found else float("nan")
print(f"{'case':<10} {'precision':<11} {'isochron':>10} {'PyTorch':>10} {'ratio':>6}   us a step, medians of two rounds")
for pair in sys.argv[2:]:
    case, precision, variant = pair.split()
    ours, theirs = p50(f"isochron-{case}-{precision}"), p50(f"pytorch-{case}-{precision}")
    print(f"{case:<10} {precision:<11} {ours:10.1f} {theirs:10.1f} {theirs / ours:6.2f}   {variant}")
END
}

flat() {
  local steps=2000
  [ -z "$dry" ] || steps=20  # as many as go through, not as many as show something
  train_on flat-regress 120 0 regress --steps $((20 * steps)) --epochs 5 --require-flat --out flat-regress
  train_on flat-gpt 200 0 gpt --data "$here/docs" --steps $steps --epochs 5 --require-flat --out flat-gpt
  step compare 300 0 "$isochron" compare gpu-memory transfers "${on_device[@]}" --out compare
}

# PIECE.json: what steps.jsonl has from line FIRST on.
summary() {  # summary PIECE FIRST SECONDS
  local steps
  steps=$(tail -n +"$2" "$out/steps.jsonl")
  printf '{"piece": "%s", "ok": %s, "seconds": %d, "steps": [\n%s\n]}\n' "$1" \
    "$(grep -q '"ok": false' <<<"$steps" && echo false || echo true)" "$3" "$(sed '$!s/$/,/' <<<"$steps")" >"$out/$1.json"
}

for piece in "${pieces[@]}"; do
  echo "== $piece"
  began=$SECONDS deadline=$((SECONDS + 600)) first=$(($(wc -l <"$out/steps.jsonl") + 1))
  $piece
  rc=$?
  summary "$piece" "$first" $((SECONDS - began))
  [ $rc -ne 0 ] || continue
  # If NVRTC or its linker isn't available, nothing can be tried.
  [ -n "$dry" ] && [ $piece = check ] && grep -q ' is not found: ' "$out/verify-add.txt" && exit 77
  [ $piece = check ] && exit 1
done
tail -n +$((before + 1)) "$out/steps.jsonl" >"$out/steps.last"
[ -s "$out/steps.last" ] && ! grep -q '"ok": false' "$out/steps.last"
