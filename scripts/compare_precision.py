#!/usr/bin/env python3
"""Trains bundled models in f32 and in mixed precision from the same seeds and compares the final losses.

    scripts/compare_precision.py [--isochron build/release/bin/isochron] [--precision mixed_bf16] [--seeds 3]
                                 [--model digits co2 gpt] [--bound 0.005] [--arguments "--epochs 3 --steps 200"]

Prints a line per model and seed, and per model the mean over the seeds, with the loss on the training data in the last
epoch, the one on the test data and what the precision changes of both; for the mean with the standard error of that change.
gpt is shortened to 5 epochs of 250 steps, and digits to 5 epochs: later it knows its images by heart, and at losses of 0.015
another order of sums in f32 changes a seed's by 6 % (--control shows it). --arguments with --epochs replace these. Exits
with 1 when the mean loss of a model, in training or on the test data, is higher than f32's by more than the bound and two
standard errors.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

SHORTENED = {"digits": ["--epochs", "5"], "gpt": ["--epochs", "5", "--steps", "250"]}
CONTROL = "f32 avx2"


def parse_arguments():
    parser = argparse.ArgumentParser(description="Compares final losses in f32 and in mixed precision.")
    parser.add_argument("--isochron", default="build/release/bin/isochron")
    parser.add_argument("--precision", default="mixed_bf16", choices=["mixed_bf16", "mixed_f16", "mixed_fp8"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", nargs="+", default=["digits", "co2", "gpt"])
    parser.add_argument("--bound", type=float, default=0.005, help="of the mean losses, relative")
    parser.add_argument("--control", action="store_true", help="compare f32 with f32 at AVX2 instead: the same, summed otherwise")
    parser.add_argument("--arguments", default="", help="for isochron train, of every run")
    arguments = parser.parse_args()
    if arguments.control:
        arguments.precision = CONTROL
    return arguments


def train(arguments, model, precision, seed, folder):
    """(loss in training of the last epoch, loss on the test data)"""
    path = folder / "run.json"
    environment = dict(os.environ)
    if precision == CONTROL:
        environment["ISOCHRON_VECTOR_TARGET"] = "avx2"
    name = precision.split()[0]
    command = [arguments.isochron, "train", model, "--precision", name, "--seed", str(seed), "--json", str(path)]
    asked = shlex.split(arguments.arguments)
    command += asked if "--epochs" in asked else SHORTENED.get(model, []) + asked
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    document = json.loads(path.read_text(encoding="utf-8"))
    return document["epochs"][-1]["loss"], document["test"].get("loss")


def change(narrow, full):
    return f"{100 * (narrow / full - 1):+.2f} %" if full else ""


def row(name, seed, full, narrow, errors=(None, None)):
    cells = [f"{name:<8}{seed:>6}"]
    for a, b, error in zip(full, narrow, errors):
        if a is None:
            continue
        cells.append(f"{a:>12.6f}{b:>12.6f}{change(b, a):>10}")
        cells.append(f"{f' +-{100 * error:.2f}':<9}" if error is not None else " " * 9)
    print("".join(cells).rstrip(), flush=True)


def summary(full, narrow):
    """of the pairs' losses: mean in f32, mean in mixed precision, standard error of the relative change"""
    if None in full:
        return None, None, None
    mean = statistics.mean(full)
    differences = [b - a for a, b in zip(full, narrow)]
    error = statistics.stdev(differences) / len(differences) ** 0.5 / mean if len(differences) > 1 else 0.0
    return mean, statistics.mean(narrow), error


def main():
    arguments = parse_arguments()
    worse = []
    print(f"{'':14}{'training loss':>34}{'':9}{'test loss':>34}")
    print(f"{'model':<8}{'seed':>6}" + f"{'f32':>12}{arguments.precision:>12}{'':19}" * 2)
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.model:
            runs = {"f32": [], arguments.precision: []}
            for seed in range(1, arguments.seeds + 1):
                for precision in runs:
                    runs[precision].append(train(arguments, model, precision, seed, pathlib.Path(folder)))
                row(model, seed, runs["f32"][-1], runs[arguments.precision][-1])
            losses = [summary(full, narrow) for full, narrow in zip(*(zip(*each) for each in runs.values()))]
            row(model, "mean", *zip(*losses))
            if any(a is not None and b > a * (1 + arguments.bound + 2 * error) for a, b, error in losses):
                worse.append(model)
    if worse:
        sys.exit(f"more than {100 * arguments.bound:g} % above f32: {', '.join(worse)}")


if __name__ == "__main__":
    main()
