"""Writes weights_torch.safetensors and weights_torch.npz: PyTorch models' state dictionaries as its library saves them,
and what the models compute. Run: python make_weights_torch.py (needs torch and safetensors)

    python make_weights_torch.py --check FILE   reads a file that the tests wrote and demands that the models, loaded
                                                from it strictly, compute what weights_torch.npz holds
"""

import sys

import numpy as np
import safetensors
import safetensors.torch
import torch

import golden

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}


class Net(torch.nn.Module):
    """Images (N, C, H, W) to 3 scores: two convolutions, the second in groups, and two dense layers."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(4, 6, (3, 2)), torch.nn.ReLU(), torch.nn.Conv2d(6, 4, 2, groups=2)
        )
        self.hidden = torch.nn.Linear(4 * 3 * 3, 5)
        self.out = torch.nn.Linear(5, 3, bias=False)

    def forward(self, x):
        x = self.features(x).permute(0, 2, 3, 1).flatten(1)  # flattened in NHWC order
        return self.out(torch.tanh(self.hidden(x)))


def images():
    return torch.from_numpy(np.random.default_rng(golden.SEED).standard_normal((2, 4, 6, 5)))


def samples():
    """One tensor of every dtype, with values that survive a conversion to f64."""
    values = {f"dtype.{name}": (torch.arange(6).reshape(2, 3) % 5).to(dtype) for name, dtype in DTYPES.items()}
    return {**values, "shape.scalar": torch.tensor(2.5), "shape.empty": torch.zeros(0, 3)}


def main():
    torch.manual_seed(golden.SEED)
    net = Net().double()
    state = {f"net.{name}": value.contiguous() for name, value in net.state_dict().items()}
    path = golden.FOLDER / "weights_torch.safetensors"
    safetensors.torch.save_file({**state, **samples()}, path, metadata={"format": "pt", "note": "caf\u00e9"})
    x = images()
    arrays = {"x": x.permute(0, 2, 3, 1).numpy(), "y": net(x).detach().numpy()}
    versions = {"torch": torch.__version__, "safetensors": safetensors.__version__}
    golden.save("weights_torch.npz", arrays, __file__, versions)
    print(f"{path.name}: {path.stat().st_size} bytes")


def check(path):
    tensors = safetensors.torch.load_file(path)
    net = Net().double()
    net.load_state_dict({k.removeprefix("net."): v for k, v in tensors.items() if k.startswith("net.")}, strict=True)
    torch.testing.assert_close(net(images()).detach(), torch.from_numpy(np.load(golden.FOLDER / "weights_torch.npz")["y"]))
    for name, value in samples().items():
        torch.testing.assert_close(tensors[name], value, rtol=0, atol=0)
    with safetensors.safe_open(path, framework="pt") as file:
        if file.metadata().get("format") != "pt":
            raise ValueError(f"{path}: metadata is {file.metadata()}")
    print(f"{path}: {len(tensors)} tensors agree")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else main()
