#!/usr/bin/env python3
"""Kills trainings that save checkpoints at random moments with SIGKILL and resumes them, again and again, and holds
their weights against those of a run that was never killed: they must be equal byte for byte.

usage: kill_test.py COMMAND [--kills N] [--seed S] [--model MODEL] [--ranks N [--mpirun LAUNCHER]] [ARGUMENT...]

With --ranks one rank of several is killed: the launcher must then end within ten seconds, with a status that isn't 0, and
leave no rank behind.

Every resumed run must find its newest checkpoint whole, that is, say nothing on standard error but that its steps take
longer as it goes on: on a busy machine they may. Arguments that are not named here go to `isochron train MODEL`.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


LAUNCHER_SECONDS = 10
STARTUP_SECONDS = 0.5


def train(options, folder):
    """The command that trains into `folder`, going on where an earlier one was killed."""
    command = [options.command, "train", options.model, "--deterministic", "--checkpoint", folder, "--resume",
               "--checkpoint-every", "3", *options.arguments]
    if options.ranks == 1:
        return command
    own = [] if "mpich" in options.mpirun else ["--oversubscribe", "--bind-to", "none"]
    return [options.mpirun, *own, "-np", str(options.ranks), *command, "--threads", "1"]


def ranks_of(folder):
    """Processes of the command that train into `folder`, of whatever launcher."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if str(folder).encode() in words and words[1:2] == [b"train"]:
            found.append(int(process.name))
    return found


def complains(errors):
    """The alarm of a machine that slowed isn't meant."""
    return any(line.strip() and "steps take longer" not in line for line in errors.splitlines())


def rank_killed(command, environment, after_seconds, folder, moments):
    """As `killed`, for one rank of several."""
    launcher = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = launcher.communicate(timeout=after_seconds)
    except subprocess.TimeoutExpired:
        ranks = ranks_of(folder)
        if ranks:
            os.kill(moments.choice(ranks), signal.SIGKILL)
        try:
            _, errors = launcher.communicate(timeout=LAUNCHER_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.kill()
            for rank in ranks_of(folder):
                os.kill(rank, signal.SIGKILL)
            fail(command, "none", f"the launcher goes on {LAUNCHER_SECONDS} s after a rank was killed")
        if ranks and launcher.returncode == 0 and "resumed" not in errors:
            return False  # the rank had ended by itself
        end = time.monotonic() + LAUNCHER_SECONDS
        while ranks_of(folder) and time.monotonic() < end:  # they have been told to end
            time.sleep(0.05)
        if left := ranks_of(folder):
            fail(command, launcher.returncode, f"ranks are left behind: {left}\n{errors}")
        return True
    if launcher.returncode != 0:
        fail(command, launcher.returncode, errors)
    return False


def fail(command, status, errors):
    sys.exit(f"kill_test: status {status} of {' '.join(map(str, command))}:\n{errors}")


def run_to_end(command, environment):
    began = time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0 or ("mpirun" not in str(command[0]) and complains(done.stderr)):
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
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--mpirun", default="mpirun")
    options, options.arguments = parser.parse_known_args()
    if not options.arguments:
        options.arguments = ["--epochs", "4", "--steps", "30"]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "ISOCHRON_CACHE": "off"}
    if options.ranks > 1:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
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
                if kills == options.kills:
                    break
                # A launcher that still starts its ranks may not notice that one is gone.
                after = moments.uniform(0.02 if options.ranks == 1 else STARTUP_SECONDS, 0.9 * seconds)
                command = train(options, folder)
                if not (killed(command, environment, after) if options.ranks == 1
                        else rank_killed(command, environment, after, folder, moments)):
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
