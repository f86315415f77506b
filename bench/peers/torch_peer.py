"""PyTorch as a peer: eager, torch.compile (model, loss and optimizer each compiled), both also under bf16 autocast,
and its DataLoader.

    FOLDER/torch/bin/python torch_peer.py --case tiny --variant eager --threads 2 --seconds 5
    FOLDER/torch/bin/python torch_peer.py --case gpt --variant bf16_compile --device cuda

Hyperparameters are those of Keras. Adam takes its fused form, images the channels_last layout: both are faster here.
On a CUDA device batches lie there, a step's time ends when its loss could be read, and torch.compile has
mode="reduce-overhead"; variants with tf32 in their name let products and convolutions round f32 to TF32.
"""

import sys

import common

TF32 = ["tf32", "tf32_compile"] if "cuda" in sys.argv else []  # on devices alone

ARGUMENTS = common.parse(
    "PyTorch",
    {
        "tiny": ["eager", "compile"],
        "mlp": ["eager", "compile", "bf16", "bf16_compile", *TF32],
        "cnn": ["eager", "compile", "bf16", "bf16_compile", *TF32],
        "resnet20": ["eager", "compile", "bf16", "bf16_compile", *TF32],
        "unet": ["eager", "compile"],
        "lstm": ["eager", "compile", "bf16", *TF32],
        "gpt": ["eager", "compile", "bf16", "bf16_compile", *TF32],
        "epoch": ["eager", "eager_randperm"],
        "data": ["loader", "loader_2_workers", "randperm"],
        "pipeline": ["loader", "loader_2_workers"],
        "map": ["loader"],
        "growing_graph": ["eager"],
    },
    devices=True,
)
DEVICE = ARGUMENTS.device

import torch
import torch.nn.functional as F
import torch_models
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(ARGUMENTS.threads)
torch.set_num_interop_threads(1)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = "tf32" in ARGUMENTS.variant
torch.backends.cudnn.benchmark = True


def build(case):
    if case == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(12 * 12 * 64, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        ).to(memory_format=torch.channels_last)
    else:
        layers = [layer for shape in common.LAYERS[case] for layer in (nn.Linear(*shape), nn.ReLU())]
        model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        layers = [layer for layer in model if hasattr(layer, "weight")]
        for layer, (kernel, bias) in zip(layers, common.weights(case)):
            kernel = torch.from_numpy(kernel)
            if kernel.dim() == 4:
                kernel = kernel.permute(3, 2, 0, 1)
            elif kernel.shape[0] == 12 * 12 * 64:  # flattened NHWC -> NCHW
                kernel = kernel.reshape(12, 12, 64, 128).permute(3, 2, 0, 1).reshape(128, -1)
            else:
                kernel = kernel.T
            layer.weight.copy_(kernel)
            layer.bias.copy_(torch.from_numpy(bias))
    return model


def stepper(case, variant):
    if case in ("resnet20", "unet", "lstm", "gpt"):
        model, optimizer, loss_function = torch_models.build(case, DEVICE)
    else:
        model, optimizer, loss_function = build_small(case)

    def loss_of(x, y):
        with torch.autocast(DEVICE, torch.bfloat16, enabled="bf16" in variant):
            return loss_function(model(x), y)

    apply = optimizer.step
    if "compile" in variant:
        mode = "reduce-overhead" if DEVICE == "cuda" else None
        loss_of = torch.compile(loss_of, mode=mode)
        if not (DEVICE == "cuda" and isinstance(optimizer, torch.optim.SGD)):  # PyTorch 2.11 can't compile it
            apply = torch.compile(optimizer.step, mode=mode)

    def step(x, y):
        if "compile" in variant:
            torch.compiler.cudagraph_mark_step_begin()  # the results of the previous step may be overwritten
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        apply()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        return loss.detach()

    return step


def build_small(case):
    model = build(case).to(DEVICE)
    if case == "cnn":
        optimizer = torch.optim.RMSprop(model.parameters(), 1e-3, alpha=0.9, eps=1e-7, foreach=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), 1e-3, eps=1e-7, fused=True)
    return model, optimizer, F.mse_loss if case == "tiny" else F.cross_entropy


def as_tensors(case, x, y):
    x, y = torch.from_numpy(x).to(DEVICE), torch.from_numpy(y).to(DEVICE)
    images = case in ("cnn", "resnet20", "unet")
    x = x.long() if case == "gpt" else x
    y = y.permute(0, 3, 1, 2) if case == "unet" else y if y.is_floating_point() else y.long()
    return x.permute(0, 3, 1, 2) if images else x, y


def steps():
    case = ARGUMENTS.case
    batches = [as_tensors(case, x, y) for x, y in common.batches(case)]
    return common.measure_steps(stepper(case, ARGUMENTS.variant), batches, ARGUMENTS.seconds)


def shuffled(kind):
    """An iterable over one shuffled epoch, by a DataLoader or by indexing with a permutation."""
    x, y = (torch.from_numpy(part) for part in common.rows())
    if kind != "randperm":
        workers = 2 if kind == "loader_2_workers" else 0
        dataset = TensorDataset(x, y)
        return DataLoader(
            dataset, common.EPOCH_BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )

    class Permuted:
        def __iter__(self):
            for rows in torch.randperm(len(x)).split(common.EPOCH_BATCH):
                yield x[rows], y[rows]

    return Permuted()


def epochs():
    batches, step = shuffled(ARGUMENTS.variant.removeprefix("eager_")), stepper("tiny", "eager")

    def epoch():
        seen = 0
        for x, y in batches:
            step(x, y)
            seen += len(x)
        return seen

    return common.measure_epochs(epoch, ARGUMENTS.seconds)


def data():
    batches = shuffled(ARGUMENTS.variant)
    return common.measure_epochs(lambda: sum(len(x) for x, _ in batches), ARGUMENTS.seconds)


class MappedRows(torch.utils.data.Dataset):
    """Rows through a function, one at a time, as a DataLoader asks for them."""

    def __init__(self, function):
        self.x, self.function = torch.from_numpy(common.pipeline_rows()), function

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.function(self.x[row])


def twice(x):
    return 2 * x


def rows():
    if ARGUMENTS.case == "map":
        loader = DataLoader(MappedRows(lambda x: x), batch_size=None)
        return common.measure_rows(lambda: sum(1 for _ in loader), ARGUMENTS.seconds)
    workers = 2 if ARGUMENTS.variant == "loader_2_workers" else 0
    loader = DataLoader(MappedRows(twice), 32, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    return common.measure_rows(lambda: sum(len(x) for x in loader), ARGUMENTS.seconds)


def growing_graph():
    start = torch.tensor(common.GROWING_START, dtype=torch.float64)

    def run():
        x = start
        for _ in range(common.GROWING_ITERATIONS):
            x = torch.fmod(x * 2, 7)
        return x

    return common.measure_growing(run, ARGUMENTS.seconds)


if __name__ == "__main__":
    if DEVICE == "cuda" and ARGUMENTS.case not in common.BATCHES:
        sys.exit(f"{ARGUMENTS.case} is timed on the cpu; leave --device out")
    measure = {"epoch": epochs, "data": data, "pipeline": rows, "map": rows, "growing_graph": growing_graph}.get(ARGUMENTS.case, steps)
    common.report("PyTorch", torch.__version__, ARGUMENTS, *measure())
