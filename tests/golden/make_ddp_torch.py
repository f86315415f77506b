"""Writes ddp_torch.npz: a small network along 20 steps of PyTorch's DistributedDataParallel on two ranks (gloo, f64), each
with batches of its own. Run: python make_ddp_torch.py
"""

import os
import pathlib
import sys

import numpy as np
import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

RANKS, STEPS, ROWS, INPUTS, HIDDEN = 2, 20, 6, 5, 7


def numbers():
    rng = np.random.default_rng(11)
    return {
        "w1": rng.standard_normal((INPUTS, HIDDEN)),
        "b1": rng.standard_normal(HIDDEN),
        "w2": rng.standard_normal((HIDDEN, 1)),
        "x": rng.standard_normal((STEPS, RANKS, ROWS, INPUTS)),
        "y": rng.standard_normal((STEPS, RANKS, ROWS, 1)),
    }


class Network(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        for name in ("w1", "b1", "w2"):
            setattr(self, name, torch.nn.Parameter(torch.tensor(values[name])))

    def forward(self, x):
        return torch.tanh(x @ self.w1 + self.b1) @ self.w2


def train(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    torch.distributed.init_process_group("gloo")
    values = numbers()
    network = Network(values)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for step in range(STEPS):
        x, y = torch.tensor(values["x"][step, rank]), torch.tensor(values["y"][step, rank])
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if rank == 0:
        after = {f"{name}.after": getattr(network, name).detach().numpy() for name in ("w1", "b1", "w2")}
        path = pathlib.Path(__file__).resolve().parent / "ddp_torch.npz"
        np.savez_compressed(path, **values, **after, losses=np.array(losses), version=np.frombuffer(torch.__version__.encode(), np.uint8))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(int(sys.argv[1]) if len(sys.argv) > 1 else 29501,), nprocs=RANKS)
