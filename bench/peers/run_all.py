#!/usr/bin/env python3
"""Times Isochron and its peers side by side, writes bench/results/NAME.json and prints a table of ratios.

    bench/peers/setup.sh FOLDER                     once: the peers' environments
    bench/peers/run_all.py --peers FOLDER --isochron build/release/bin/isochron [--rounds 3] [--seconds 3] [--name NAME]
    bench/peers/run_all.py --peers FOLDER --isochron build/cuda/bin/isochron --device cuda    train steps there, beside PyTorch

Every round runs everything once, one process at a time, so that a machine that slows for a while slows all alike; the
medians over the rounds count. Whatever is missing or fails is named and left out, and the exit status is 1. The file holds one JSON object a
line: first the machine, versions, date and command line, then one measurement a line: the keys that the peers and
`isochron bench --json` print (times are per step; per epoch for `epoch` and `data`, per row for `pipeline` and `map`, per iteration for `growing_graph`),
with `framework` (absent for Isochron) and `rounds_p50_us`, the medians of each round.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# framework: (environment, script)
PEERS = {
    "TensorFlow": ("tf", "tensorflow_peer.py"),
    "JAX": ("tf", "jax_peer.py"),
    "PyTorch": ("torch", "torch_peer.py"),
}
CASES = ["tiny", "mlp", "cnn", "resnet20", "lstm", "gpt", "epoch", "data", "pipeline", "map", "growing_graph"]
OURS = "isochron"
MIXED_CASES = {"mlp", "cnn", "resnet20", "lstm", "gpt"}  # timed in mixed_bf16, and tf32 on a device, too
DEVICE_CASES = ["tiny", *sorted(MIXED_CASES, key=CASES.index)]
DEVICE_PEERS = ["PyTorch"]
PRECISIONS = ["f32", "tf32", "mixed_bf16"]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Times Isochron and its peers side by side.")
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="the folder given to setup.sh")
    parser.add_argument("--isochron", type=pathlib.Path, help="the isochron command; left out, only peers are timed")
    parser.add_argument("--case", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=list(PEERS), help="frameworks to time")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where train steps run")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, os.cpu_count()], help="each count is timed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--allow-missing", action="store_true", help="exit 0 although something failed or is missing")
    parser.add_argument("--name", default=datetime.date.today().isoformat(), help="results go to bench/results/NAME.json")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.seconds <= 0 or min(arguments.threads) < 1:
        parser.error("--rounds, --seconds and --threads must be positive")
    arguments.threads = sorted(set(arguments.threads))
    if arguments.device != "cpu":
        arguments.case = [case for case in arguments.case if case in DEVICE_CASES]
        arguments.only = [peer for peer in arguments.only if peer in DEVICE_PEERS]
        arguments.threads = arguments.threads[-1:]
    return arguments


def plan(arguments):
    """[(label, command without --threads and --seconds)], and the omitted peers with the reasons."""
    entries, missing = [], []
    place = [] if arguments.device == "cpu" else ["--device", arguments.device]
    for case in arguments.case:
        if arguments.isochron is not None:
            command = [str(arguments.isochron), "bench", "--json", "--case", case, *place]
            entries.append((f"{OURS} {case}", command))
            if case in MIXED_CASES:
                for precision in PRECISIONS[1 if place else 2 :]:
                    entries.append((f"{OURS} {case} {precision}", [*command, "--precision", precision]))
        for framework in arguments.only:
            environment, script = PEERS[framework]
            python = arguments.peers / environment / "bin/python"
            if not python.is_file():
                missing.append(f"{framework}: there is no {python}; make it with setup.sh")
                continue
            listed = subprocess.run([python, HERE / script, "--list", *place], check=True, capture_output=True, text=True)
            for variant in json.loads(listed.stdout).get(case, []):
                command = [str(python), str(HERE / script), "--case", case, "--variant", variant, *place]
                entries.append((f"{framework} {case} {variant}", command))
    return entries, list(dict.fromkeys(missing))


def run_once(command, seconds):
    """(records that the command printed, the reason if there are none)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300 + 10 * seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], str(error)
    records = []
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                return [], f"printed a broken line: {error}"
    if done.returncode != 0 or not records:
        last = (done.stderr.strip().splitlines() or ["printed no measurement"])[-1]
        return [], f"exit code {done.returncode}: {last}"
    return records, None


def key_of(record):
    return record["case"], record.get("peer", OURS), record["precision"], record["threads"]


def run_rounds(entries, arguments):
    """{key: [a record per round]}, and failures as {label: reason}. A command that failed isn't run again."""
    measured, failures, kept = {}, {}, {}
    for number in range(1, arguments.rounds + 1):
        for label, command in entries:
            for threads in arguments.threads:
                name = f"{label}, {threads} threads"
                if name in failures:
                    continue
                if sys.stderr.isatty():
                    print(f"\rround {number}/{arguments.rounds}: {name:<60}", end="", file=sys.stderr, flush=True)
                options = ["--threads", str(threads), "--seconds", f"{arguments.seconds:g}"]
                records, failure = run_once(command + options, arguments.seconds)
                if failure:
                    failures[name] = failure
                    for key in kept.pop(name, []):
                        del measured[key]  # of the rounds before
                for record in records:
                    measured.setdefault(key_of(record), []).append(record)
                    kept.setdefault(name, set()).add(key_of(record))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return measured, failures


def combine(records):
    """Merges the records of several rounds: the median of every number, and other values from the first."""
    result = {}
    for key, first in records[0].items():
        values = [record[key] for record in records]
        if all(type(value) is int for value in values):
            result[key] = statistics.median_low(values)
        else:
            numbers = isinstance(first, (int, float))
            odd = numbers and not all(math.isfinite(value) for value in values)
            result[key] = math.nan if odd else statistics.median(values) if numbers else first
    result["rounds_p50_us"] = [record["p50_us"] for record in records]
    return result


def machine():
    """CPU model, cores, memory, kernel."""
    model = platform.processor() or platform.machine()
    try:
        told = subprocess.run(["lscpu"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    except OSError:  # isn't there
        told = ""
    fields = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
    if "Model name" in fields:
        model = fields["Model name"].strip()
        if "CPU family" in fields:
            model += f" (family {fields['CPU family'].strip()}, model {fields['Model'].strip()})"
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {gib:.0f} GiB, {platform.system()} {platform.release()}"


def time_text(us):
    if us < 1:
        return f"{us * 1000:.3g} ns"
    return f"{us:.3g} us" if us < 1000 else f"{us / 1000:.4g} ms"


def print_table(results):
    """Per case and precision: the fastest thread count of each, its time over Isochron's (or the fastest's, without it)."""
    for case, precision in [(case, precision) for case in CASES for precision in PRECISIONS]:
        best = {}
        for record in results:
            name = record.get("peer", OURS)
            own = record["precision"] if record["precision"] in PRECISIONS else PRECISIONS[0]  # f64
            if record["case"] == case and own == precision:
                if name not in best or record["p50_us"] < best[name]["p50_us"]:
                    best[name] = record
        if not best:
            continue
        ordered = sorted(best.items(), key=lambda item: item[1]["p50_us"])
        base_name = OURS if OURS in best else ordered[0][0]
        base = best[base_name]["p50_us"]
        title = case if precision == PRECISIONS[0] else f"{case} {precision}"
        print(f"\n{title:<28}{'p50':>11}{'p99':>11}{'threads':>9}   x {base_name}")
        for name, record in ordered:
            times = f"{time_text(record['p50_us']):>11}{time_text(record['p99_us']):>11}"
            print(f"  {name:<26}{times}{record['threads']:>9}   {record['p50_us'] / base:.2f}")


def check_losses(results):
    """Names the peers whose loss after 20 steps differs from the others' or isn't finite: they would be
    training another model.
    """
    odd = []
    for case in CASES:
        checked = [r for r in results if r["case"] == case and "loss_at_20" in r]
        losses = {(r["peer"], r["precision"], r["threads"]): r["loss_at_20"] for r in checked}
        full = [loss for (_, precision, _), loss in losses.items() if precision != "mixed_bf16" and math.isfinite(loss)]
        middle = statistics.median(full) if full else math.nan
        # 2 %: in RMSprop, PyTorch adds epsilon after the square root, the others before it. bf16 rounds besides.
        for (peer, precision, threads), loss in losses.items():
            if not abs(loss - middle) <= (0.05 if precision == "mixed_bf16" else 0.02) * middle:
                odd.append(f"{case}: {peer} on {threads} threads has loss {loss:.4f}, median {middle:.4f}")
    return odd


def main():
    arguments = parse_arguments()
    entries, missing = plan(arguments)
    for line in missing:
        print(f"left out: {line}", file=sys.stderr)
    if not entries:
        sys.exit("nothing to run")
    path = HERE.parent / "results" / f"{arguments.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: the load average is {load:.1f}; other programs disturb the times", file=sys.stderr)
    measured, failures = run_rounds(entries, arguments)
    results = [combine(records) for _, records in sorted(measured.items(), key=lambda item: CASES.index(item[0][0]))]
    for name, reason in failures.items():
        print(f"left out: {name}: {reason}", file=sys.stderr)
    odd = check_losses(results)
    for line in odd:
        print(f"warning: {line}", file=sys.stderr)
    if not results:
        sys.exit("nothing was measured")
    about = {
        "machine": machine(),
        **({"device": device} if (device := next((r["device"] for r in results if "device" in r), "cpu")) != "cpu" else {}),
        "versions": {r["framework"]: r["version"] for r in results if "framework" in r},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["bench/peers/run_all.py", *sys.argv[1:]]),
        "method": "eight batches in turn; memory at the end",
        "rounds": arguments.rounds,
        "load_average": round(load, 2),
    }
    text = "".join(json.dumps(line) + "\n" for line in [about, *results])
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
    print_table(results)
    print(f"\n{path}: {len(results)} measurements, {about['machine']}")
    if (missing or failures or odd) and not arguments.allow_missing:
        sys.exit("not everything was measured, so the fastest may be missing; --allow-missing accepts that")


def self_test():
    """Tests the parts that need no framework."""
    def losses(**of_peers):
        return [{"case": "tiny", "peer": peer, "precision": "f32", "threads": threads, "loss_at_20": loss}
                for peer, pairs in of_peers.items() for threads, loss in pairs]

    assert not check_losses(losses(a=[(1, 2.0)], b=[(1, 2.01)]))
    for odd in (losses(a=[(1, 2.0)], b=[(1, math.nan)], c=[(1, 2.0)]), losses(a=[(1, 9.0), (2, 2.0)], b=[(1, 2.0)]),
                losses(a=[(1, math.nan)])):
        assert len(check_losses(odd)) == 1, odd
    assert math.isnan(combine([{"p50_us": 1.0, "loss_at_20": loss} for loss in (2.0, math.nan, 3.0)])["loss_at_20"])

    runs = iter([([{"case": "tiny", "precision": "f32", "threads": 1}], None), ([], "exit code 1")])
    global run_once
    run_once, real = (lambda command, seconds: next(runs)), run_once
    measured, failures = run_rounds([("x", [])], argparse.Namespace(rounds=2, threads=[1], seconds=1))
    assert not measured and list(failures) == ["x, 1 threads"], "what fails once counts in no round"
    run_once = real
    os.environ["PATH"] = ""
    assert "cores" in machine()
    print("run_all: the self-test passes")


if __name__ == "__main__":
    self_test() if sys.argv[1:] == ["--self-test"] else main()
