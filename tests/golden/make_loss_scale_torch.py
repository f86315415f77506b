"""Writes loss_scale_torch.npz: scales of torch.amp.GradScaler under scripted overflows. Run: python make_loss_scale_torch.py"""

import numpy as np
import torch

import golden

# Name -> initial scale, growth interval, number of steps, and the steps whose gradients overflow.
CASES = {
    "frequent": (2.0**15, 5, 120, [0, 1, 9, 14, 15, 30, 61, 62, 63, 64, 99]),
    "usual": (2.0**15, 2000, 6500, [100, 101, 2099, 4101]),
}


def scales_of(initial, interval, steps, overflows):
    """The scale before each step, the number of updates done and the final parameter."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=interval)
    scales, moved = [], 0
    for step in range(steps):
        optimizer.zero_grad()
        scaler.scale((parameter * (1.0 / 1024)).sum()).backward()
        scales.append(scaler.get_scale())
        if step in overflows:
            parameter.grad.fill_(float("inf") if step % 2 else float("nan"))
        before = parameter.item()
        scaler.step(optimizer)
        moved += parameter.item() != before
        scaler.update()
    return np.array(scales), moved, parameter.item()


def main():
    arrays = {}
    for key, (initial, interval, steps, overflows) in CASES.items():
        scales, moved, final = scales_of(initial, interval, steps, set(overflows))
        arrays[f"{key}.scales"] = scales
        arrays[f"{key}.overflows"] = np.array([step in overflows for step in range(steps)], dtype=np.int64)
        arrays[f"{key}.settings"] = np.array([initial, interval, moved, final], dtype=np.float64)
    golden.save("loss_scale_torch.npz", arrays, __file__, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
