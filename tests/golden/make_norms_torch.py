"""Writes norms_torch.npz: group, instance and batch normalization in f64, with gradients. Run: python make_norms_torch.py"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

EPSILON = 1e-4
# Shape, channels last, and groups (0: the moments of the whole batch). More than one sample in 3-d, since torch 2.15 gets
# the gradients of instance_norm of one sample in that layout wrong (dbeta is not the sum of dy).
CASES = {
    "group_1d": ((3, 11, 6), 2),
    "group_2d_odd": ((2, 5, 7, 15), 3),
    "group_2d": ((2, 4, 5, 32), 8),
    "group_3d": ((2, 3, 4, 5, 9), 3),
    "group_one": ((4, 9, 5), 1),
    "group_long": ((1, 20, 19, 10), 5),
    "instance_1d": ((3, 13, 5), 5),
    "instance_2d": ((2, 7, 6, 16), 16),
    "instance_3d": ((2, 5, 4, 6, 3), 3),
    "batch_1d": ((4, 7, 5), 0),
    "batch_2d": ((3, 6, 5, 24), 0),
}


def normalize(x, gamma, beta, groups):
    images = x.movedim(-1, 1)
    if groups == 0:
        y = F.batch_norm(images, None, None, gamma, beta, training=True, eps=EPSILON)
    elif groups == x.shape[-1]:
        y = F.instance_norm(images, weight=gamma, bias=beta, eps=EPSILON)
    else:
        y = F.group_norm(images, groups, gamma, beta, EPSILON)
    return y.movedim(1, -1)


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    arrays = {}
    for name, (shape, groups) in CASES.items():
        values = {
            "x": 3.0 + 2.0 * rng.standard_normal(shape),
            "gamma": rng.uniform(0.5, 1.5, shape[-1]),
            "beta": rng.standard_normal(shape[-1]),
        }
        dy = rng.standard_normal(shape)
        tensors = {key: torch.tensor(value, requires_grad=True) for key, value in values.items()}
        y = normalize(*tensors.values(), groups)
        y.backward(torch.tensor(dy))
        results = {"dy": dy, "y": y.detach().numpy(), **{f"d{key}": t.grad.numpy() for key, t in tensors.items()}}
        for key, value in {**values, **results}.items():
            arrays[f"{name}.{key}"] = np.ascontiguousarray(value)
    cases = {name: {"shape": shape, "groups": groups} for name, (shape, groups) in CASES.items()}
    golden.save("norms_torch.npz", arrays, __file__, {"torch": torch.__version__}, epsilon=EPSILON, cases=cases)


if __name__ == "__main__":
    main()
