#!/usr/bin/env python3
"""Kills trainings that save checkpoints at random moments with SIGKILL and resumes them, again and again, and holds
their weights against those of a run that was never killed: they must be equal byte for byte.

usage: kill_test.py COMMAND [--kills N] [--seed S] [--model MODEL] [--ranks N [--mpirun LAUNCHER] [--starting SHARE]]
                    [ARGUMENT...]

With --ranks one rank of several is killed, at any time from the first rank's start to the end of the last: the launcher must
then end within ten seconds, with a status that isn't 0, and leave no rank behind. --starting: so many of the kills, 0.5 for
half, come in the first half second, while MPI starts. Where every rank has gone and the launcher alone goes on, that is its own
fault: such kills are counted, and end the test with status 1 unless --launcher-may-hang is given.

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
START_SECONDS = 0.5  # about as long as ranks take from their start until MPI has started


def train(options, folder):
    """The command that trains into `folder` and resumes a run that was killed."""
    command = [options.command, "train", options.model, "--deterministic", "--checkpoint", folder, "--resume",
               "--checkpoint-every", "3", *options.arguments]
    if options.ranks == 1:
        return command
    own = [] if "mpich" in options.mpirun else ["--oversubscribe", "--bind-to", "none"]
    return [options.mpirun, *own, "-np", str(options.ranks), *command, "--threads", "1"]


def ranks_of(folder):
    """Processes of the command that train into `folder`, whatever their launcher is."""
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
    """Whether there are messages other than the alarm of a machine that slowed down."""
    return any(line.strip() and "steps take longer" not in line for line in errors.splitlines())


class RankKills:
    """Kills of one rank of several, and what came of them."""

    def __init__(self, moments, starting):
        self.moments, self.starting = moments, starting
        self.afters, self.ends, self.hung = [], [], 0

    def after(self, seconds):
        """When the next kill comes, counted from the first rank's start. Ranks that train take `seconds`."""
        if self.moments.random() < self.starting:
            return self.moments.uniform(0, START_SECONDS)
        return self.moments.uniform(0, seconds)

    def kill(self, command, environment, seconds, folder):
        """Whether a rank lived until it was killed."""
        launcher = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while launcher.poll() is None and not ranks_of(folder):
            time.sleep(0.001)
        after = self.after(seconds)
        try:
            _, errors = launcher.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            return self.kill_one(command, launcher, after, folder)
        if launcher.returncode != 0:
            fail(command, launcher.returncode, errors)
        return False

    def kill_one(self, command, launcher, after, folder):
        ranks = ranks_of(folder)
        try:
            if ranks:
                os.kill(self.moments.choice(ranks), signal.SIGKILL)
        except ProcessLookupError:  # it has ended by itself
            ranks = []
        killed = time.monotonic()
        try:
            _, errors = launcher.communicate(timeout=LAUNCHER_SECONDS)
        except subprocess.TimeoutExpired:
            left = ranks_of(folder)
            for process in (launcher.pid, *left):
                os.kill(process, signal.SIGKILL)
            launcher.communicate()
            if left:
                fail(command, "none", f"ranks {left} and the launcher go on {LAUNCHER_SECONDS} s after a kill {after:.3f} s "
                                      "after the first rank's start")
            self.hung += 1
            self.afters.append(after)
            return True
        took = time.monotonic() - killed
        if not ranks or launcher.returncode == 0:
            return False  # it ended by itself just before; a rank that is killed makes the launcher fail
        end = time.monotonic() + LAUNCHER_SECONDS
        while ranks_of(folder) and time.monotonic() < end:  # they have been told to end
            time.sleep(0.05)
        if left := ranks_of(folder):
            fail(command, launcher.returncode, f"ranks are left behind: {left}\n{errors}")
        self.afters.append(after)
        self.ends.append(took)
        return True

    def text(self):
        early = sum(after < START_SECONDS for after in self.afters)
        hung = f", and hung {self.hung} times with all ranks gone" if self.hung else ""
        return (f"{early} of them in the first {START_SECONDS} s; the launcher took {max(self.ends, default=0):.1f} s at most "
                f"to end{hung}")


def fail(command, status, errors):
    sys.exit(f"kill_test: status {status} of {' '.join(map(str, command))}:\n{errors}")


def run_to_end(command, environment, printed=None):
    """The seconds that it takes. What it prints is added to the list."""
    began = time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if printed is not None:
        printed.append(done.stdout)
    if done.returncode != 0 or ("mpirun" not in str(command[0]) and complains(done.stderr)):
        fail(command, done.returncode, done.stderr)
    return time.monotonic() - began


def killed(command, environment, after_seconds, printed):
    """Whether the process lived until it was killed. What it prints is added to the list."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = process.communicate(timeout=after_seconds)
        was_killed = False
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        was_killed = True
    printed.append(f"{output}(killed after {after_seconds:.3f} s)\n" if was_killed else output)
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
    parser.add_argument("--starting", type=float, default=0)
    parser.add_argument("--launcher-may-hang", action="store_true")
    options, options.arguments = parser.parse_known_args()
    if not options.arguments:
        options.arguments = ["--epochs", "4", "--steps", "30"]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "ISOCHRON_CACHE": "off"}
    if options.ranks > 1:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    moments = random.Random(options.seed)
    rank_kills = RankKills(moments, options.starting)
    kills = resumed = 0
    with tempfile.TemporaryDirectory(prefix="isochron-kill-") as root:
        whole = pathlib.Path(root, "whole")
        of_whole = []
        seconds = run_to_end(train(options, whole), environment, of_whole)
        expected = (whole / "weights.safetensors").read_bytes()
        run = 0
        while kills < options.kills:
            run += 1
            folder = pathlib.Path(root, f"run-{run}")
            printed = []
            # Twice as many as are likely to end one run, so that it is killed several times.
            for _ in range(6):
                if kills == options.kills:
                    break
                command = train(options, folder)
                if not (killed(command, environment, moments.uniform(0.02, 0.9 * seconds), printed) if options.ranks == 1
                        else rank_kills.kill(command, environment, seconds, folder)):
                    break
                kills += 1
                resumed += any(folder.glob("*.safetensors"))
            run_to_end(train(options, folder), environment, printed)
            if (folder / "weights.safetensors").read_bytes() != expected:
                sys.exit(f"kill_test: run {run} ends with other weights (after {kills} kills, seed {options.seed}). "
                         "It printed:\n" + "----\n".join(printed) + "The run that was never killed printed:\n" + of_whole[0])
            left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
            if left or len(list(folder.glob("cp-*"))) > 3:
                sys.exit(f"kill_test: run {run} leaves files behind: {sorted(p.name for p in folder.iterdir())}")
    print(f"{kills} kills in {run} runs, {resumed} of them after a checkpoint: all end with equal weights")
    if options.ranks > 1:
        print(rank_kills.text())
    if rank_kills.hung and not options.launcher_may_hang:
        sys.exit(1)


if __name__ == "__main__":
    main()
