#!/usr/bin/env python3
"""Data parallel training on this machine, in turns: Isochron's ranks, as many independent processes of Isochron at once,
and PyTorch's DistributedDataParallel over gloo; one thread a rank.

    bench/peers/ranks.py --isochron build/release/bin/isochron --torch build/peers/torch/bin/python [--rounds 5]
                         [--cases mlp gpt resnet20 lstm] [--mpirun mpirun.openmpi] [--json FILE]

A line a case: medians over the rounds of the median step. Busy machines disturb all three, so they alternate.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

STEPS = {"tiny": 20000, "mlp": 300, "cnn": 60, "resnet20": 30, "unet": 20, "lstm": 300, "gpt": 40}
HERE = pathlib.Path(__file__).resolve().parent


def ranks_of_isochron(options, case):
    """Microseconds of a step and of its wait for other ranks, and the bytes that a rank sends."""
    own = ["--oversubscribe", "--bind-to", "none"] if "openmpi" in options.mpirun or options.mpirun == "mpirun" else []
    command = [options.mpirun, *own, "-np", str(options.ranks), options.isochron, "bench", "--case", case, "--threads", "1",
               "--steps", str(STEPS[case]), "--json"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    text = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **root}).stdout
    result = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
    return result["p50_us"], result["exposed_us"], result["bytes_sent"]


def independent(options, case):
    command = [options.isochron, "bench", "--case", case, "--threads", "1", "--steps", str(STEPS[case]), "--json"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(options.ranks)]
    return statistics.mean(json.loads(process.communicate()[0])["p50_us"] for process in processes)


def ddp(options, case):
    command = [options.torch, str(HERE / "torch_ddp.py"), "--case", case, "--ranks", str(options.ranks), "--threads", "1",
               "--steps", str(STEPS[case])]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(next(line for line in text.splitlines() if line.startswith("{")))["p50_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--isochron", required=True)
    parser.add_argument("--torch", required=True, help="the interpreter of an environment with PyTorch")
    parser.add_argument("--cases", nargs="+", default=["mlp", "gpt", "resnet20", "lstm"], choices=STEPS)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--json")
    options = parser.parse_args()
    results = []
    print(f"{'case':<10} {'ranks us':>10} {'alone us':>10} {'DDP us':>10} {'/ alone':>8} {'DDP /':>7} {'exposed us':>11} {'bytes':>10}")
    for case in options.cases:
        rounds = [(ranks_of_isochron(options, case), independent(options, case), ddp(options, case))
                  for _ in range(options.rounds)]
        own = statistics.median(ranks[0] for ranks, _, _ in rounds)
        exposed = statistics.median(ranks[1] for ranks, _, _ in rounds)
        alone = statistics.median(single for _, single, _ in rounds)
        peer = statistics.median(other for _, _, other in rounds)
        results.append({"case": case, "ranks": options.ranks, "ranks_us": own, "alone_us": alone, "ddp_us": peer,
                        "exposed_us": exposed, "bytes_sent": rounds[0][0][2]})
        print(f"{case:<10} {own:>10.1f} {alone:>10.1f} {peer:>10.1f} {own / alone:>8.3f} {peer / own:>7.2f} {exposed:>11.1f} "
              f"{rounds[0][0][2]:>10.0f}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
