#!/usr/bin/env python3
"""Does a training over two ranks name the rank that is slow, and why?

Runs bench/slow_rank.cc again and again: with ranks that are alike, with a slow map function on one rank, below
a CPU quota for one rank (a control group of its own: needs root), and with a busy program on one rank's core.
Prints how often the right rank and cause were named.

  python3 scripts/straggler_test.py --program build/release/bin/slow_rank [--runs 10] [--healthy 20]
"""

import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CASES = {
    "input": "waiting for input",
    "quota": "CPU quota",
    "neighbor": "core",
}


class Quota:
    """A control group whose processes get half a core."""

    def __init__(self):
        period = 20_000  # us
        for root, files in (
            ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(period // 2)}),
            ("/sys/fs/cgroup", {"cpu.max": f"{period // 2} {period}"}),
        ):
            self.folder = pathlib.Path(root) / f"isochron-straggler-{os.getpid()}"
            try:
                self.folder.mkdir()
                for name, text in files.items():
                    (self.folder / name).write_text(text)
                return
            except OSError:
                if self.folder.is_dir():
                    self.folder.rmdir()
        self.folder = None

    def close(self):
        if self.folder is not None:
            self.folder.rmdir()


def launch(arguments, case, rank, quota):
    program = str(pathlib.Path(arguments.program).resolve())
    command = [program, str(arguments.updates)]
    if case == "input":
        command += [str(rank), str(arguments.delay_us)]
    if case == "quota":
        script = (
            'if [ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = ' + str(rank) + " ]; then "
            f"echo $$ > {quota.folder}/cgroup.procs; fi; exec \"$@\""
        )
        command = ["sh", "-c", script, "sh", *command]
    open_mpi = "openmpi" in arguments.mpirun or "Open MPI" in subprocess.run(
        [arguments.mpirun, "--version"], capture_output=True, text=True, check=False).stdout
    binding = ["--oversubscribe", "--bind-to", "core"] if open_mpi else ["-bind-to", "core"]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    neighbor = None
    if case == "neighbor":
        neighbor = subprocess.Popen(["taskset", "-c", str(rank), "sh", "-c", "while :; do :; done"])
    try:
        return subprocess.run([arguments.mpirun, *binding, "-np", "2", *command], capture_output=True, text=True,
                              env=environment, timeout=300, check=False)
    finally:
        if neighbor is not None:
            neighbor.kill()
            neighbor.wait()


def verdict(case, rank, output):
    """"right", "nobody", or what was said."""
    named = re.findall(r"^cause: a straggling rank \((.*)\)$", output, re.MULTILINE)
    if not named:
        return "nobody"
    if case == "healthy":
        return "named: " + named[0]
    right = named[0].startswith(f"rank {rank} of 2") and CASES[case] in named[0]
    return "right" if right else "named: " + named[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/slow_rank")
    parser.add_argument("--mpirun", default=shutil.which("mpirun.openmpi") or "mpirun")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--healthy", type=int, default=20)
    parser.add_argument("--updates", type=int, default=4000)
    parser.add_argument("--delay-us", type=int, default=500)
    parser.add_argument("--case", choices=["healthy", *CASES], action="append")
    arguments = parser.parse_args()
    quota = Quota()
    failed = False
    try:
        for case in arguments.case or ["healthy", *CASES]:
            runs = arguments.healthy if case == "healthy" else arguments.runs
            if case == "quota" and quota.folder is None:
                print("quota: no control group can be made here; skipped")
                continue
            found = collections.Counter()
            for i in range(runs):
                result = launch(arguments, case, i % 2, quota)
                if result.returncode != 0:
                    print(result.stdout, result.stderr, file=sys.stderr)
                    return 1
                found[verdict(case, i % 2, result.stdout)] += 1
            wanted = found["nobody" if case == "healthy" else "right"]
            print(f"{case}: {wanted} of {runs} as expected", dict(found) if wanted < runs else "", flush=True)
            failed = failed or wanted < (runs if case == "healthy" else 0.9 * runs)
    finally:
        quota.close()
    return 1 if failed else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ISOCHRON_CACHE", folder)
        sys.exit(main())
