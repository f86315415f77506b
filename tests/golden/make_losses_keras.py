"""Writes losses_keras.npz: losses that Keras alone has, and their gradients, in f64. Run by a Python that has Keras:
PYTHONPATH=FOLDER/torch/lib/python3.11/site-packages python make_losses_keras.py

On the PyTorch backend, with PyTorch's mean and maximum: Keras's cast to f32 there.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
from keras import losses
from keras.src import ops

import golden
from make_losses_torch import record


ops.mean = lambda x, axis: torch.mean(x, dim=axis)
ops.maximum = lambda x, y: torch.clamp(x, min=y)


def main():
    keras.config.set_floatx("float64")
    rng = np.random.default_rng(golden.SEED)
    x = torch.tensor(rng.standard_normal((6, 5)) * 2, requires_grad=True)
    sign = torch.tensor(rng.choice([-1.0, 1.0], (6, 5)))
    p = torch.tensor(rng.uniform(0.02, 0.98, (6, 5)), requires_grad=True)
    binary = torch.tensor(rng.integers(0, 2, (6, 5)).astype(float))
    classes = torch.tensor(np.eye(5)[rng.integers(0, 5, 6)])
    rates = torch.tensor(rng.uniform(0.1, 6, (6, 5)), requires_grad=True)
    counts = torch.tensor(rng.integers(0, 5, (6, 5)).astype(float))
    alphas = torch.tensor(rng.uniform(0.2, 3, 5))
    inputs = {"x": x, "sign": sign, "p": p, "binary": binary, "classes": classes, "rates": rates, "counts": counts}
    arrays = {name: value.detach().numpy().copy() for name, value in {**inputs, "alphas": alphas}.items()}
    focal = {"gamma": 1.5, "label_smoothing": 0.1}
    balanced = {"apply_class_balancing": True, "alpha": 0.3, **focal}
    for name, loss, truth, prediction in (
        ("hinge", losses.hinge, sign, x),
        ("hinge_binary", losses.hinge, binary, x),
        ("squared_hinge", losses.squared_hinge, sign, x),
        ("categorical_hinge", losses.categorical_hinge, classes, x),
        ("poisson", losses.poisson, counts, rates),
        ("percentage", losses.mean_absolute_percentage_error, sign, x),
        ("logarithmic", losses.mean_squared_logarithmic_error, counts, rates),
        ("dice", losses.dice, binary, p),
        ("tversky", lambda t, p: losses.tversky(t, p, alpha=0.3, beta=0.9), binary, p),
    ):
        record(arrays, name, lambda prediction: loss(truth, prediction), prediction)
    for name, loss in (("dice_rows", losses.dice), ("tversky_rows", losses.tversky)):
        record(arrays, name, lambda p: loss(binary, p, axis=1), p)
    for name, loss, truth, options in (
        ("binary_focal", losses.binary_focal_crossentropy, binary, {}),
        ("binary_focal_all", losses.binary_focal_crossentropy, binary, balanced),
        ("categorical_focal", losses.categorical_focal_crossentropy, classes, {}),
        ("categorical_focal_all", losses.categorical_focal_crossentropy, classes, {"alpha": alphas, **focal}),
    ):
        record(arrays, name, lambda p: loss(truth, p, **options), p)
        record(arrays, f"{name}_logits", lambda x: loss(truth, x, from_logits=True, **options), x)
    golden.save("losses_keras.npz", arrays, __file__, {"keras": keras.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main()
