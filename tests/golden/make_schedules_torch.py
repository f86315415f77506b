"""Writes schedules_torch.npz: learning rates by PyTorch's schedulers. Run: python make_schedules_torch.py"""

import numpy as np
import torch
from torch.optim import lr_scheduler

import golden

STEPS = 120
WARMUP = 8

CONFIGURATIONS = {
    "step_decay": lambda o: lr_scheduler.StepLR(o, 25, 0.3),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.97),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, total_iters=80, power=1.7),
    "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=STEPS, cycle_momentum=False),
    "one_cycle_set": lambda o: lr_scheduler.OneCycleLR(
        o, max_lr=0.1, total_steps=STEPS, pct_start=0.4, div_factor=10, final_div_factor=100, cycle_momentum=False
    ),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, T_0=7, T_mult=2, eta_min=0.001),
    "warmup_cosine": lambda o: lr_scheduler.SequentialLR(
        o,
        [
            lr_scheduler.LinearLR(o, start_factor=1 / WARMUP, total_iters=WARMUP - 1),
            lr_scheduler.LambdaLR(o, lambda s: 0.01 + 0.99 * (1 + np.cos(np.pi * min(s / (100 - WARMUP), 1))) / 2),
        ],
        [WARMUP],
    ),
    # The schedule of "Attention Is All You Need", its highest rate scaled to the optimizer's.
    "warmup_inverse_sqrt": lambda o: lr_scheduler.LambdaLR(
        o, lambda s: WARMUP**0.5 * min(max(s, 1) ** -0.5, (s + 1) * WARMUP**-1.5) if s >= WARMUP else (s + 1) / WARMUP
    ),
}


def main():
    arrays = {}
    for key, make in CONFIGURATIONS.items():
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))], lr=0.1)
        scheduler = make(optimizer)
        rates = []
        for step in range(STEPS):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if step + 1 < STEPS:
                scheduler.step()
        arrays[key] = np.array(rates)
    golden.save("schedules_torch.npz", arrays, __file__, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
