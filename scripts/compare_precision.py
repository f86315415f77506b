#!/usr/bin/env python3
"""Trains bundled models in f32 and in mixed precision from the same seeds and compares the final losses.

    scripts/compare_precision.py [--isochron build/release/bin/isochron] [--precision mixed_bf16] [--seeds 3]
                                 [--model digits co2 gpt] [--bound 0.005] [--arguments "--epochs 3 --steps 200"]

Prints a line per model and seed, and per model the mean over the seeds, with the loss on the training data in the last
epoch, the one on the test data and what the precision changes of both. gpt is shortened to 3 epochs of 200 steps;
everything else runs as by default, unless --arguments says more. Exits with 1 when the mean training loss of a model is
higher than f32's by more than the bound.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

SHORTENED = {"gpt": ["--epochs", "3", "--steps", "200"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares final losses in f32 and in mixed precision.")
    parser.add_argument("--isochron", default="build/release/bin/isochron")
    parser.add_argument("--precision", default="mixed_bf16", choices=["mixed_bf16", "mixed_f16"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", nargs="+", default=["digits", "co2", "gpt"])
    parser.add_argument("--bound", type=float, default=0.005, help="of the mean training loss, relative")
    parser.add_argument("--arguments", default="", help="for isochron train, of every run")
    return parser.parse_args()


def train(arguments, model, precision, seed, folder):
    """(loss in training of the last epoch, loss on the test data)"""
    path = folder / "run.json"
    command = [arguments.isochron, "train", model, "--precision", precision, "--seed", str(seed), "--json", str(path)]
    command += SHORTENED.get(model, []) + shlex.split(arguments.arguments)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    document = json.loads(path.read_text(encoding="utf-8"))
    return document["epochs"][-1]["loss"], document["epochs"][-1].get("val_loss", document["test"].get("loss"))


def change(narrow, full):
    return f"{100 * (narrow / full - 1):+.2f} %" if full else ""


def row(name, seed, full, narrow):
    cells = [f"{name:<8}{seed:>6}"]
    for a, b in zip(full, narrow):
        cells.append(f"{a:>12.6f}{b:>12.6f}{change(b, a):>10}" if a is not None else "")
    print("".join(cells), flush=True)


def main():
    arguments = parse_arguments()
    worse = []
    print(f"{'':14}{'training loss':>34}{'test loss':>34}")
    print(f"{'model':<8}{'seed':>6}" + f"{'f32':>12}{arguments.precision:>12}{'':10}" * 2)
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.model:
            runs = {"f32": [], arguments.precision: []}
            for seed in range(1, arguments.seeds + 1):
                for precision in runs:
                    runs[precision].append(train(arguments, model, precision, seed, pathlib.Path(folder)))
                row(model, seed, runs["f32"][-1], runs[arguments.precision][-1])
            means = [[statistics.mean(v) if None not in v else None for v in zip(*losses)] for losses in runs.values()]
            row(model, "mean", *means)
            if means[1][0] > means[0][0] * (1 + arguments.bound):
                worse.append(model)
    if worse:
        sys.exit(f"more than {100 * arguments.bound:g} % above f32: {', '.join(worse)}")


if __name__ == "__main__":
    main()
