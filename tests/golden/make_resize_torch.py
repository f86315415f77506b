"""Writes resize_torch.npz: torch.nn.functional.interpolate in f64, with gradients. Run: python make_resize_torch.py"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

SIZES = {"up": (9, 10), "down": (3, 2), "mixed": (4, 11), "flat": (1, 6)}
METHODS = {
    "nearest": {"mode": "nearest-exact"},
    "linear": {"mode": "bilinear", "align_corners": False},
    "linear_corners": {"mode": "bilinear", "align_corners": True},
    "linear_antialias": {"mode": "bilinear", "align_corners": False, "antialias": True},
    "cubic": {"mode": "bicubic", "align_corners": False},
    "cubic_corners": {"mode": "bicubic", "align_corners": True},
    "cubic_antialias": {"mode": "bicubic", "align_corners": False, "antialias": True},
    "area": {"mode": "area"},
}


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    x = rng.standard_normal((2, 5, 7, 3))
    arrays = {"x": x}
    for size_name, size in SIZES.items():
        dy = rng.standard_normal((2, *size, 3))
        arrays[f"{size_name}.dy"] = dy
        for name, options in METHODS.items():
            images = torch.tensor(x, requires_grad=True)
            y = F.interpolate(images.permute(0, 3, 1, 2), size=size, **options).permute(0, 2, 3, 1)
            y.backward(torch.tensor(dy))
            arrays[f"{size_name}.{name}.y"] = np.ascontiguousarray(y.detach().numpy())
            arrays[f"{size_name}.{name}.dx"] = np.ascontiguousarray(images.grad.numpy())
    golden.save("resize_torch.npz", arrays, __file__, {"torch": torch.__version__}, sizes=SIZES, methods=METHODS)


if __name__ == "__main__":
    main()
