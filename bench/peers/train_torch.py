#!/usr/bin/env python3
"""Trains in PyTorch what `isochron train MODEL` trains by default: same data, model, first weights' distribution, optimizer,
schedule and number of steps; the order of rows and the draws are its own. Prints one JSON object with the test's numbers.

    FOLDER/torch/bin/python bench/peers/train_torch.py --model resnet20|lstm|gpt [--epochs N] [--steps N] [--seed S]
                            [--data PLACE...]

`--data` takes for gpt the files and folders that `isochron train gpt` reads; beside --epochs and --steps it must be what
isochron was given. lstm is tested in ppm against the weeks from 1990 on, as there.
"""

import argparse
import csv
import gzip
import json
import math
import pathlib
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
OWN_TEXT = "core memory graph ops autograd optim nn data observe train apps examples docs".split()
CONTEXT = 64
# epochs, batch, steps an epoch (0: one pass), highest learning rate, share of the steps that warm up
SETTINGS = {
    "resnet20": (20, 32, 0, 0.05, 0.1),
    "lstm": (100, 64, 0, 2e-3, 0),
    "gpt": (12, 12, 250, 2e-3, 0.04),
}


def philox(seed):
    """The words of data::Rng(seed): Philox4x32-10 over a counter, key = seed."""
    mask, block = 0xFFFFFFFF, 0
    while True:
        c, k = [block & mask, block >> 32, 0, 0], [seed & mask, seed >> 32]
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        yield from c
        block += 1


def digits_order(rows, seed=1998):
    """The fixed order in which data::load_digits puts the rows before it splits them."""
    words, order = philox(seed), list(range(rows))
    for left in range(rows, 1, -1):
        while True:
            product = ((next(words) << 32) | next(words)) * left
            if product & (2**64 - 1) >= 2**64 % left:
                break
        at = product >> 64
        order[left - 1], order[at] = order[at], order[left - 1]
    return order


def load_digits():
    """((images, labels), (images, labels)): (N, 3, 32, 32), each channel of mean 0 and deviation 1 in training."""
    import torch
    import torch.nn.functional as F

    with gzip.open(ROOT / "datasets/digits.csv.gz", "rt") as file:
        table = np.array(list(csv.reader(file)), np.float32)
    table = table[digits_order(len(table))]
    images = torch.from_numpy(table[:, :64] / 16).reshape(-1, 1, 8, 8)
    images = F.interpolate(images, (32, 32), mode="bilinear").expand(-1, 3, -1, -1).contiguous()
    labels, train = torch.from_numpy(table[:, 64].astype(np.int64)), len(table) * 4 // 5
    mean, deviation = images[:train].mean((0, 2, 3), keepdim=True), images[:train].std((0, 2, 3), keepdim=True)
    images = (images - mean) / deviation
    return (images[:train], labels[:train]), (images[train:], labels[train:])


def load_co2(window=104):
    """((inputs, targets), (inputs, targets), ppm of a unit of the targets); windows over their last week."""
    import torch

    with open(ROOT / "datasets/co2_weekly.csv") as file:
        rows = list(csv.DictReader(file))
    ppm = np.array([float(row["co2"] or "nan") for row in rows])
    known = ~np.isnan(ppm)
    ppm = np.interp(np.arange(len(ppm)), np.flatnonzero(known), ppm[known])
    split = next(i for i, row in enumerate(rows) if int(row["date"]) >= 19900101)

    def windows(begin, end):
        inputs = np.stack([ppm[i - window : i] - ppm[i - 1] for i in range(begin, end)])
        return inputs, np.array([[ppm[i] - ppm[i - 1]] for i in range(begin, end)])

    train, test = windows(window, split), windows(split, len(ppm))
    scales = [math.sqrt((part**2).mean()) for part in train]
    tensors = lambda parts: tuple(torch.from_numpy((p / s).astype(np.float32)) for p, s in zip(parts, scales))
    (x, y), (test_x, test_y) = tensors(train), tensors(test)
    return (x[..., None], y), (test_x[..., None], test_y), scales[1]


def texts_below(folder):
    """The files that `isochron train gpt` reads there: no hidden files, no links, no files with NUL bytes."""
    shown = lambda path: not any(part.startswith(".") for part in path.relative_to(folder).parts)
    below = sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink() and shown(p))
    return [p for p in below if b"\0" not in p.read_bytes()]


def load_text(places):
    """(training tokens, validation tokens, vocabulary): the last tenth of each file is for validation."""
    import torch

    own = not places
    files = []
    for place in [ROOT / name for name in OWN_TEXT] if own else map(pathlib.Path, places):
        files += [p for p in texts_below(place) if not own or p.suffix in (".h", ".cc", ".md")] if place.is_dir() else [place]
    train, validation = bytearray(), bytearray()
    for path in files:
        content = path.read_bytes()
        kept = int(len(content) * 0.9)
        train += content[:kept]
        validation += content[kept:]
    values = sorted(set(train) | set(validation))
    numbers = np.zeros(256, np.int64)
    numbers[values] = np.arange(len(values))
    tokens = lambda part: torch.from_numpy(numbers[np.frombuffer(bytes(part), np.uint8)])
    return tokens(train), tokens(validation), len(values)


def rate(step, total, warmup):
    """Share of the highest learning rate: as optim::warmup around optim::cosine with a final share of 0.01."""
    ramp = min(1.0, (step + 1) / max(1, warmup))
    along = min(max((step - warmup) / (total - warmup), 0.0), 1.0)
    return ramp * (0.01 + 0.99 * (0.5 + 0.5 * math.cos(math.pi * along)))


def train(model, optimizer, loss, epochs, steps_per_epoch, warmup_share, batches):
    """Runs the schedule; `batches` gives the batches of an epoch. Returns seconds and the last epoch's mean loss."""
    import torch

    total = epochs * steps_per_epoch
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, total, int(warmup_share * total)))
    model.train()
    began = time.perf_counter()
    for _ in range(epochs):
        losses = []
        for (x, y), _ in zip(batches(), range(steps_per_epoch)):
            value = loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            optimizer.step()
            schedule.step()
            losses.append(value.detach())
    model.eval()
    return time.perf_counter() - began, float(torch.stack(losses).mean())


def initialize(model):
    """The distributions of isochron's layers: see nn/module/initializers.h, nn/models/resnet.h, nn/models/gpt.h."""
    import torch
    import torch_models
    from torch import nn

    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
        elif isinstance(model, torch_models.Gpt) and isinstance(module, (nn.Linear, nn.Embedding)):
            scale = math.sqrt(2 * len(model.blocks)) if name.endswith("narrow") else 1
            nn.init.normal_(module.weight, 0, 0.02 / scale)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
        elif isinstance(module, nn.LSTM):
            nn.init.xavier_uniform_(module.weight_ih_l0)
            nn.init.orthogonal_(module.weight_hh_l0)
            with torch.no_grad():
                module.bias_ih_l0.zero_(), module.bias_hh_l0.zero_()
                module.bias_ih_l0[module.hidden_size : 2 * module.hidden_size] = 1  # the forget gate's
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(SETTINGS), required=True)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--steps", type=int, help="steps an epoch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", nargs="*", default=[])
    arguments = parser.parse_args()
    if arguments.data and arguments.model != "gpt":
        parser.error(f"--data is for gpt; {arguments.model} trains on the datasets of the project")
    if min(arguments.epochs or 1, arguments.steps or 1) < 1 or 0 in (arguments.epochs, arguments.steps):
        parser.error("--epochs and --steps must be at least 1")
    import torch
    import torch.nn.functional as F
    import torch_models

    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    epochs, batch, steps, peak, warmup_share = SETTINGS[arguments.model]
    epochs, steps = arguments.epochs or epochs, arguments.steps or steps
    test = {}

    def rows(x, y):
        while True:
            order = torch.randperm(len(x))
            for i in range(0, len(x), batch):
                yield x[order[i : i + batch]], y[order[i : i + batch]]

    if arguments.model == "gpt":
        tokens, held_out, vocabulary = load_text(arguments.data)
        model = initialize(torch_models.Gpt(**(torch_models.common.GPT | {"vocabulary": vocabulary})))
        groups = [
            {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, peak, betas=(0.9, 0.99), eps=1e-8)
        loss = lambda scores, y: F.cross_entropy(scores.flatten(0, 1), y.flatten())

        def at(text, starts):
            windows = text[starts[:, None] + torch.arange(CONTEXT + 1)]
            return windows[:, :-1], windows[:, 1:]

        def batches():
            while True:
                yield at(tokens, torch.randint(len(tokens) - CONTEXT, (batch,)))

        seconds, last = train(model, optimizer, loss, epochs, steps, warmup_share, batches)
        count = min(480, len(held_out) // (CONTEXT + 1))
        starts = torch.linspace(0, len(held_out) - CONTEXT - 1, count, dtype=torch.float64).long()
        with torch.no_grad():
            x, y = at(held_out, starts)
            test["loss"] = float(loss(model(x), y))
    elif arguments.model == "lstm":
        (x, y), (test_x, test_y), scale = load_co2()
        model = torch_models.Forecaster()
        model.lstm = torch.nn.LSTM(1, 64, batch_first=True)
        optimizer = torch.optim.Adam(initialize(model).parameters(), peak, eps=1e-7)
        steps = steps or math.ceil(len(x) / batch)
        seconds, last = train(model, optimizer, F.mse_loss, epochs, steps, warmup_share, lambda: rows(x, y))
        with torch.no_grad():
            test["rmse_ppm"] = scale * math.sqrt(F.mse_loss(model(test_x), test_y))
    else:
        (x, y), (test_x, test_y) = load_digits()
        model = initialize(torch_models.ResNet20())
        optimizer = torch.optim.SGD(model.parameters(), peak, momentum=0.9)
        steps = steps or math.ceil(len(x) / batch)
        seconds, last = train(model, optimizer, F.cross_entropy, epochs, steps, warmup_share, lambda: rows(x, y))
        with torch.no_grad():
            scores = model(test_x)
            test["loss"] = float(F.cross_entropy(scores, test_y))
            test["accuracy"] = float((scores.argmax(1) == test_y).float().mean())
    result = {"model": arguments.model, "seed": arguments.seed, "steps": epochs * steps, "seconds": round(seconds, 1)}
    print(json.dumps(result | {"train_loss": last, "test": test}))


if __name__ == "__main__":
    main()
