"""Writes functions_torch.npz: functions composed of other ops, with gradients, by PyTorch in f64. Run: python make_functions_torch.py

Each has the same input x (3, 4, 5), whose row x[1, 2] is all zeros, as is the plane x[:, :, 3].
"""

import numpy as np
import torch

import golden

FUNCTIONS = {
    "standard_deviation": lambda x: torch.std(x, (0, 2), correction=1),
    "standard_deviation_biased": lambda x: torch.std(x, 2, correction=0, keepdim=True),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, (1,)),
    "norm_2": lambda x: torch.linalg.vector_norm(x, 2, (2,), keepdim=True),
    "norm_3.5": lambda x: torch.linalg.vector_norm(x, 3.5, (0, 1)),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, torch.inf, (2,)),
    "roll": lambda x: torch.roll(x, (1, -7, 5), (0, 2, 1)),
    "tile": lambda x: torch.tile(x, (2, 3)),
    "tile_longer": lambda x: torch.tile(x, (2, 1, 3, 1)),
    "masked_fill": lambda x: x.masked_fill(x[0] > 0, -2.5),
}
# Without a gradient.
COUNTS = {
    "any": lambda x: torch.any(x, 2),
    "all": lambda x: torch.all(x, 2, keepdim=True),
    "count_nonzero": lambda x: torch.count_nonzero(x, (0, 1)),
}


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    x = rng.standard_normal((3, 4, 5))
    x[1, 2] = 0.0
    x[:, :, 3] = 0.0
    arrays = {"x": x, "linspace": torch.linspace(-1.5, 2.25, 8, dtype=torch.float64).numpy()}
    for name, function in FUNCTIONS.items():
        tensor = torch.tensor(x, requires_grad=True)
        y = function(tensor)
        dy = rng.standard_normal(tuple(y.shape))
        (y * torch.tensor(dy)).sum().backward()
        arrays |= {f"{name}.y": y.detach().numpy().copy(), f"{name}.dy": dy, f"{name}.dx": tensor.grad.numpy()}
    for name, function in COUNTS.items():
        arrays[f"{name}.y"] = function(torch.tensor(x)).numpy().astype(np.int64)
    golden.save("functions_torch.npz", arrays, __file__, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
