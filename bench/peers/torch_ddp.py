"""PyTorch's DistributedDataParallel over gloo as a peer of `mpirun isochron bench`: every rank is a process of its own on
this machine and takes one batch a step.

    FOLDER/torch/bin/python torch_ddp.py --case mlp --ranks 2 --threads 1 --steps 200

Prints one JSON object: microseconds of a step, as the first rank sees them.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

WARMUP_STEPS = 30


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", required=True, choices=["tiny", "mlp", "cnn", "resnet20", "unet", "lstm", "gpt"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    return parser.parse_args()


def start(ranks):
    """Runs every rank as a process, and returns the exit status of the largest magnitude."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    processes = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **common, "RANK": str(rank)})
                 for rank in range(ranks)]
    return max((process.wait() for process in processes), key=abs)


def train(options):
    sys.argv = [sys.argv[0], "--case", options.case, "--variant", "eager", "--threads", str(options.threads)]
    import common
    import torch
    import torch.distributed
    import torch_peer
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    make = torch_peer.torch_models.build if options.case in ("resnet20", "unet", "lstm", "gpt") else None
    model, optimizer, loss_function = make(options.case, "cpu") if make else torch_peer.build_small(options.case)
    model = DistributedDataParallel(model)
    batches = [torch_peer.as_tensors(options.case, x, y) for x, y in common.batches(options.case)]
    times = []
    for i in range(WARMUP_STEPS + options.steps):
        x, y = batches[i % len(batches)]
        began = time.perf_counter_ns()
        optimizer.zero_grad(set_to_none=True)
        loss_function(model(x), y).backward()
        optimizer.step()
        times.append(time.perf_counter_ns() - began)
    times = sorted(times[WARMUP_STEPS:])
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"peer": "PyTorch DDP", "version": torch.__version__, "case": options.case,
                          "ranks": options.ranks, "threads": options.threads, "p50_us": times[len(times) // 2] * 1e-3,
                          "min_us": times[0] * 1e-3}), flush=True)
    torch.distributed.barrier()
    os._exit(0)  # PyTorch 2.15's own shutdown aborts now and then, because a gloo thread is still running


if __name__ == "__main__":
    OPTIONS = arguments()
    sys.exit(train(OPTIONS) if "RANK" in os.environ else start(OPTIONS.ranks))
