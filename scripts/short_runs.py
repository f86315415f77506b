#!/usr/bin/env python3
"""Trains every bundled model for a few epochs, with and without checkpoints, event files and short epochs, and demands that
none of these healthy runs is told a cause.

    short_runs.py COMMAND [--all] [MODEL...]   --all: every combination, some minutes; exit 77 where the machine is too busy

What a run is told may be another program's doing: a run with a cause is repeated, and counts when it has one each time.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ATTEMPTS = 4
SKIPPED = 77
# Causes that the report names if the machine slowed down. They are true on a busy machine, and not the program's fault.
OF_THE_MACHINE = ("clocks or throttling", "stolen CPU time", "the machine slowed, not the program")
# (model, options, in the short selection)
RUNS = [
    ("digits", "--epochs 2", True), ("digits", "--epochs 10", True), ("digits", "--epochs 20 --steps 5", False),
    ("mlp", "--epochs 5", True), ("lenet", "--epochs 1", False), ("resnet20", "--epochs 2 --steps 5", False),
    ("co2", "--epochs 5", True), ("co2", "--epochs 25 --steps 10", True), ("gru", "--epochs 3", False),
    ("tcn", "--epochs 2 --steps 20", False), ("gpt", "--epochs 2 --steps 10", False),
    ("regress", "--epochs 5", True), ("regress", "--epochs 50", True), ("regress", "--epochs 100 --steps 10", False),
    ("digits", "--epochs 3 --checkpoint-every 5", False), ("digits", "--epochs 6 --gradient-histograms", False),
    ("digits", "--epochs 4 --accumulate 4 --precision mixed_bf16", False),
]
BESIDE = ((), ("checkpoint",), ("tensorboard",), ("checkpoint", "tensorboard"))


def causes_of(command, model, options, beside):
    with tempfile.TemporaryDirectory() as folder:
        arguments = [command, "train", model, *options.split(), "--json", f"{folder}/run.json", "--out", f"{folder}/out"]
        for what in beside:
            arguments += [f"--{what}", f"{folder}/{what}"]
        run = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"short_runs: {' '.join(arguments)} ended with {run.returncode}: {run.stderr}")
        report = json.loads(pathlib.Path(f"{folder}/run.json").read_text(encoding="utf-8"))["report"]
        causes = report["causes"]
        return [f"{c['name']} ({c['evidence']})" for c in causes if c["name"] not in OF_THE_MACHINE]


def busy_cores(seconds=0.5):
    """How many cores other programs use."""
    def busy():
        numbers = [int(n) for n in pathlib.Path("/proc/stat").read_text(encoding="utf-8").split("\n")[0].split()[1:9]]
        return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")
    before = busy()
    time.sleep(seconds)
    return (busy() - before) / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    runs = told = 0
    for model, arguments, short in RUNS:
        if options.models and model not in options.models or not (short or options.all):
            continue
        for beside in BESIDE:
            if "--checkpoint-every" in arguments and "checkpoint" not in beside:
                continue
            if "--gradient-histograms" in arguments and "tensorboard" not in beside:
                continue
            runs += 1
            name = " ".join([model, arguments, *(f"--{what}" for what in beside)])
            found = [causes_of(options.command, model, arguments, beside)]
            while found[-1] and len(found) < ATTEMPTS:
                found.append(causes_of(options.command, model, arguments, beside))
            if found[-1]:
                told += 1
                print(f"short_runs: train {name} is told a cause {ATTEMPTS} times: {found[-1]}", file=sys.stderr)
            elif len(found) > 1:
                print(f"train {name}: a cause in {len(found) - 1} of {len(found)} attempts: {found[0]}")
    print(f"short_runs: {runs} healthy runs, {told} with a cause")
    if told and busy_cores() > 0.25:
        print("short_runs: other programs use the machine, so that this says nothing")
        return SKIPPED
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
