"""Writes float8_torch.npz: numbers rounded to the formats of 8 bits, and their bytes. Run: python make_float8_torch.py"""

import numpy as np
import torch

import golden

FORMATS = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0)}


def main():
    rng = np.random.default_rng(golden.SEED)
    arrays = {}
    for name, (dtype, largest) in FORMATS.items():
        every = torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype).to(torch.float32)
        held = np.unique(np.abs(every[torch.isfinite(every)].numpy()))
        halves = (held[1:] + held[:-1]) / 2
        beside = np.concatenate([np.nextafter(halves, np.float32(0)), np.nextafter(halves, np.float32(1e9))])
        anywhere = np.exp2(rng.uniform(-18, np.log2(largest), 500)).astype(np.float32)
        x = np.concatenate([held, halves, beside, anywhere]).astype(np.float32)
        x = np.concatenate([x, -x[1:]])
        rounded = torch.from_numpy(x).to(dtype)
        arrays[f"{name}.x"] = x
        arrays[f"{name}.rounded"] = rounded.to(torch.float32).numpy()
        arrays[f"{name}.bytes"] = rounded.view(torch.uint8).numpy()
    golden.save("float8_torch.npz", arrays, __file__, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
