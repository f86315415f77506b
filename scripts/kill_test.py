#!/usr/bin/env python3
"""Kills trainings that save checkpoints at random moments with SIGKILL and resumes them, again and again, and holds
their weights against those of a run that was never killed: they must be equal byte for byte.

usage: kill_test.py COMMAND [--kills N] [--seed S] [--model MODEL] [ARGUMENT...]

Every resumed run must find its newest checkpoint whole, that is, say nothing on standard error but that its steps take
longer as it goes on: on a busy machine they may. Arguments that are not named here go to `isochron train MODEL`.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time


def train(options, folder):
    """The command that trains into `folder`, going on where an earlier one was killed."""
    return [options.command, "train", options.model, "--deterministic", "--checkpoint", folder, "--resume",
            "--checkpoint-every", "3", *options.arguments]


def complains(errors):
    """The alarm of a machine that slowed isn't meant."""
    return any(line.strip() and "steps take longer" not in line for line in errors.splitlines())


def fail(command, status, errors):
    sys.exit(f"kill_test: status {status} of {' '.join(map(str, command))}:\n{errors}")


def run_to_end(command, environment):
    began = time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0 or complains(done.stderr):
        fail(command, done.returncode, done.stderr)
    return time.monotonic() - began


def killed(command, environment, after_seconds):
    """Whether the process lived until it was killed."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = process.communicate(timeout=after_seconds)
        was_killed = False
    except subprocess.TimeoutExpired:
        process.kill()
        _, errors = process.communicate()
        was_killed = True
    if complains(errors) or (not was_killed and process.returncode != 0):
        fail(command, process.returncode, errors)
    return was_killed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="digits")
    options, options.arguments = parser.parse_known_args()
    if not options.arguments:
        options.arguments = ["--epochs", "4", "--steps", "30"]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "ISOCHRON_CACHE": "off"}
    moments = random.Random(options.seed)
    kills = resumed = 0
    with tempfile.TemporaryDirectory(prefix="isochron-kill-") as root:
        whole = pathlib.Path(root, "whole")
        seconds = run_to_end(train(options, whole), environment)
        expected = (whole / "weights.safetensors").read_bytes()
        run = 0
        while kills < options.kills:
            run += 1
            folder = pathlib.Path(root, f"run-{run}")
            # Twice as many as are likely to end one run, so that it is killed several times.
            for _ in range(6):
                if kills == options.kills or not killed(train(options, folder), environment,
                                                        moments.uniform(0.02, 0.9 * seconds)):
                    break
                kills += 1
                resumed += any(folder.glob("*.safetensors"))
            run_to_end(train(options, folder), environment)
            if (folder / "weights.safetensors").read_bytes() != expected:
                sys.exit(f"kill_test: run {run} ends with other weights (after {kills} kills, seed {options.seed})")
            left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
            if left or len(list(folder.glob("cp-*"))) > 3:
                sys.exit(f"kill_test: run {run} leaves files behind: {sorted(p.name for p in folder.iterdir())}")
    print(f"{kills} kills in {run} runs, {resumed} of them after a checkpoint: all end with equal weights")


if __name__ == "__main__":
    main()
