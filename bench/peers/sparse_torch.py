"""Steps of sparse embedding tables, Isochron's (bench/sparse_steps.cc) and PyTorch's in turns.

    FOLDER/torch/bin/python sparse_torch.py --isochron build/release/bin/sparse_steps --tables 8 --rows 100000

Both do the same: the vectors of one number a table and sample are summed, and the mean square of their distance from 1 is
minimized, by SGD, Adagrad and Adam on sparse gradients (PyTorch: SGD, Adagrad, SparseAdam). Tables, batches and losses are
the same, and so are the losses after the first turn, which are printed. A figure is the median over rounds of the median step of a turn, in
microseconds; the ratio is that of the better ones of all thread counts.
"""

import argparse
import os
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

BATCHES = 32
MASK = (1 << 64) - 1


def batches(tables, batch, rows):
    state, result = 1, []
    for _ in range(BATCHES):
        values = []
        for _ in range(tables * batch):
            state = (state * 6364136223846793005 + 1442695040888963407) & MASK
            values.append((state >> 33) % rows)
        result.append(torch.tensor(values).view(tables, batch))
    return result


class Torch:
    def __init__(self, optimizer, tables, rows, width, batch):
        self.tables = [torch.nn.Parameter(torch.full((rows, width), 0.01)) for _ in range(tables)]
        make = {
            "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
            "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
            "adam": lambda p: torch.optim.SparseAdam(p, lr=1e-3),
        }
        self.optimizer = make[optimizer](self.tables)
        self.batches = batches(tables, batch, rows)
        self.next = 0

    def step(self):
        indices = self.batches[self.next % BATCHES]
        self.next += 1
        self.optimizer.zero_grad(set_to_none=True)
        total = sum(F.embedding(indices[i], table, sparse=True) for i, table in enumerate(self.tables))
        loss = (total - 1).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def turn(self, count, threads):
        torch.set_num_threads(threads)
        times = []
        for _ in range(count):
            begin = time.perf_counter_ns()
            loss = self.step()
            times.append((time.perf_counter_ns() - begin) / 1000)
        return statistics.median(times), loss


class Isochron:
    """The program on `threads` threads, which waits between its turns."""

    def __init__(self, a, optimizer, threads):
        command = [a.isochron, "--optimizer", optimizer]
        for name in ("tables", "rows", "width", "batch"):
            command += [f"--{name}", str(getattr(a, name))]
        environment = {**os.environ, "ISOCHRON_THREADS": str(threads)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def turn(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        median, loss = self.process.stdout.readline().split()
        return float(median), float(loss)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(a, optimizer):
    ours = {threads: Isochron(a, optimizer, threads) for threads in a.threads}
    theirs = Torch(optimizer, a.tables, a.rows, a.width, a.batch)
    times, losses = {}, []
    for round_ in range(a.rounds + 1):
        results = {}
        for threads in a.threads:
            results["Isochron", threads] = ours[threads].turn(a.steps)
            results["PyTorch", threads] = theirs.turn(a.steps, threads)
        if round_ == 0:  # the warm-up; after the same number of steps both losses are equal
            losses = [results[name, a.threads[0]][1] for name in ("Isochron", "PyTorch")]
            continue
        for key, (median, _) in results.items():
            times.setdefault(key, []).append(median)
    for program in ours.values():
        program.end()
    medians = {key: statistics.median(values) for key, values in times.items()}
    best = {name: min(medians[name, threads] for threads in a.threads) for name in ("Isochron", "PyTorch")}
    text = ", ".join(f"{name} on {threads} {value:.1f} us" for (name, threads), value in medians.items())
    print(f"{optimizer:8} {a.tables} x {a.rows} x {a.width}, batch {a.batch}: {text}")
    print(f"{'':8} PyTorch takes {best['PyTorch'] / best['Isochron']:.2f} times as long; "
          f"losses {losses[0]:.6g}, {losses[1]:.6g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isochron", required=True, help="the program sparse_steps")
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "adagrad", "adam"])
    for name, value in {"tables": 8, "rows": 100000, "width": 32, "batch": 512, "steps": 20, "rounds": 15}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="a program of ours for each")
    arguments = parser.parse_args()
    torch.set_num_interop_threads(1)
    for optimizer in arguments.optimizers:
        compare(arguments, optimizer)


if __name__ == "__main__":
    main()
