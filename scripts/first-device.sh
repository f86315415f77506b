#!/usr/bin/env bash
# What to run on a device that has not run Isochron yet, in pieces of some minutes each:
#
#     scripts/first-device.sh [--bin FOLDER] [--out FOLDER] [--jobs N] [--ops "NAME..."] PIECE...
#
#     check    the driver, the libraries, a small captured step
#     verify   every op on the device and on the CPU, a process an op
#     train    every bundled model in every precision, some steps; errors that must end with their exit codes
#     memcheck, racecheck, initcheck    compute-sanitizer over each op and a training
#     bench    the time of a step in every precision
#     profile  the same kernel by kernel, and with one kernel at a time
#     peers    the same beside PyTorch, which python3 must have, in turns; needs no `bench` before it
#     flat     long runs that must be found flat, and `isochron compare` of memory and transfers
#
# --bin: a folder with `isochron` (build/release/bin, else bin beside this script's folder); --out: a folder for a log
# of each step and steps.jsonl, a line a step with its exit code and seconds; --ops: check these alone. Exits with 1 if
# a step failed.
set -uo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
bin=$here/build/release/bin
[ -x "$bin/isochron" ] || bin=$here/bin
out=first-device
jobs=8
ops=
pieces=()
while [ $# -gt 0 ]; do
  case $1 in
    --bin) bin=$2; shift ;;
    --out) out=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --ops) ops=$2; shift ;;
    check | verify | train | memcheck | racecheck | initcheck | bench | profile | peers | flat) pieces+=("$1") ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
  esac
  shift
done
[ ${#pieces[@]} -gt 0 ] || { echo "no piece is named; see --help" >&2; exit 2; }
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
isochron=$bin/isochron
export ISOCHRON_DATASETS=${ISOCHRON_DATASETS:-$here/datasets}
own_libraries=${LD_LIBRARY_PATH:-}  # what python3 runs with
[ -d "$here/lib" ] && export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# What is under way ends with this script: it would slow whatever comes next.
end_all() { kill $(jobs -rp) 2>/dev/null; wait; exit 143; }
trap end_all TERM INT

# step NAME SECONDS EXIT COMMAND...: one run, which must end with EXIT within SECONDS.
step() {
  local name=$1 seconds=$2 expected=$3 began=$EPOCHREALTIME rc took
  shift 3
  (cd "$out" && exec timeout -k 5 "$seconds" "$@") >"$out/$name.txt" 2>&1 </dev/null &
  wait $!
  rc=$?
  took=$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $began}")
  printf '{"step": "%s", "rc": %d, "expected": %d, "seconds": %s}\n' "$name" $rc "$expected" "$took" >>"$out/steps.jsonl"
  if [ $rc -eq "$expected" ]; then
    printf 'ok      %-34s %6s s\n' "$name" "$took"
  else
    printf 'FAILED  %-34s %6s s, exit %d, expected %d\n%s\n' "$name" "$took" $rc "$expected" \
      "$(tail -n 6 "$out/$name.txt" | cut -c 1-300 | sed 's/^/          /')"
    return 1
  fi
}
# A function that makes a step, beside others, at most $jobs at a time.
also() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  { trap end_all TERM INT; "$@"; } &
}

models="regress mlp digits lenet resnet20 lstm gru tcn gpt"
precisions="f32 tf32 mixed_bf16 mixed_f16 mixed_fp8"
cases="tiny mlp cnn resnet20 unet lstm gpt"

check() {
  step nvidia-smi 30 0 nvidia-smi
  step doctor 60 0 "$isochron" doctor
  step verify-add 60 0 "$isochron" doctor --device cuda --verify --op add &&
    step train-regress 60 0 "$isochron" train regress --device cuda --epochs 1 --steps 20
}

verify() {
  local op
  for op in ${ops:-$("$isochron" doctor --list-ops)}; do
    also step "verify-$op" 120 0 "$isochron" doctor --device cuda --verify --op "$op"
  done
  wait
}

train() {
  local model precision optimizer
  for model in $models; do
    local data=()
    [ "$model" = gpt ] && data=(--data "$here/docs")
    for precision in $precisions; do
      also step "train-$model-$precision" 100 0 "$isochron" train "$model" "${data[@]}" --device cuda --epochs 1 --steps 20 \
        --precision "$precision" --json "$model-$precision.json"
    done
    also step "train-$model-cpu" 100 0 "$isochron" train "$model" "${data[@]}" --epochs 1 --steps 20 --threads 2 --json "$model-cpu.json"
  done
  for optimizer in amsgrad adamw adamax nadam lamb lion rmsprop adagrad adadelta adafactor nesterov; do
    also step "train-digits-$optimizer" 100 0 "$isochron" train digits --device cuda --epochs 1 --steps 20 --optimizer $optimizer
  done
  also step train-accumulate 100 0 "$isochron" train digits --device cuda --epochs 1 --steps 20 --accumulate 4
  also step train-not-finite 100 1 "$isochron" train digits --device cuda --epochs 1 --learning-rate 1e30
  also step train-out-of-memory 100 4 "$isochron" train digits --device cuda --batch 1024 --memory-limit 4MiB
  wait
}

sanitize() {  # sanitize TOOL
  local op
  for op in ${ops:-$("$isochron" doctor --list-ops)}; do
    also step "$1-$op" 90 0 compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 5 "$isochron" doctor --device cuda \
      --verify --op "$op"
  done
  also step "$1-digits" 300 0 compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 5 "$isochron" train digits \
    --device cuda --epochs 1 --steps 5
  wait
}
memcheck() { sanitize memcheck; }
racecheck() { sanitize racecheck; }
initcheck() { sanitize initcheck; }

bench() {
  local name precision
  for precision in f32 tf32 mixed_bf16; do
    for name in $cases; do
      step "bench-$name-$precision" 60 0 "$isochron" bench --device cuda --case "$name" --precision $precision --seconds 1 --json
    done
  done
}

profile() {
  local name
  for name in $cases; do
    step "bench-$name-in-order" 60 0 "$isochron" bench --device cuda --case "$name" --in-order --seconds 1 --json
    step "profile-$name" 60 0 "$isochron" bench --device cuda --case "$name" --seconds 1 --profile
    step "profile-$name-mixed_bf16" 60 0 "$isochron" bench --device cuda --case "$name" --precision mixed_bf16 --seconds 1 --profile
  done
}

torch() {  # torch NAME CASE VARIANT SECONDS
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
  # What is compiled once is kept: all at a time, and no timing beside it.
  for pair in "${pairs[@]}"; do
    read -r name precision variant <<<"$pair"
    also torch "compiled-$name-$precision" "$name" "$variant" 0.1
  done
  wait
  for round in 1 2; do
    for pair in "${pairs[@]}"; do
      read -r name precision variant <<<"$pair"
      step "isochron-$name-$precision-$round" 60 0 "$isochron" bench --device cuda --case "$name" --precision "$precision" \
        --seconds 0.5 --json
      torch "pytorch-$name-$precision-$round" "$name" "$variant" 0.5
    done
  done
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
  step flat-regress 120 0 "$isochron" train regress --device cuda --steps 20000 --epochs 5 --require-flat --out flat-regress
  step flat-gpt 200 0 "$isochron" train gpt --data "$here/docs" --device cuda --steps 2000 --epochs 5 --require-flat --out flat-gpt
  step compare 300 0 "$isochron" compare gpu-memory transfers --device cuda --out compare
}

for piece in "${pieces[@]}"; do
  echo "== $piece"
  $piece || { [ $piece = check ] && exit 1; }
done
! grep -v '"rc": \([0-9]*\), "expected": \1,' "$out/steps.jsonl" >/dev/null
