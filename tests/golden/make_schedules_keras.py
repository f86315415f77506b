"""Writes schedules_keras.npz: learning rates by Keras' schedules. Run: python make_schedules_keras.py"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import keras
import numpy as np

import golden

STEPS = 120

CONFIGURATIONS = {
    "piecewise": ("PiecewiseConstantDecay", {"boundaries": [10, 40], "values": [0.1, 0.02, 0.005]}),
    "exponential": ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 20, "decay_rate": 0.6}),
    "step_decay": (
        "ExponentialDecay",
        {"initial_learning_rate": 0.1, "decay_steps": 20, "decay_rate": 0.6, "staircase": True},
    ),
    "cosine": ("CosineDecay", {"initial_learning_rate": 0.1, "decay_steps": 90, "alpha": 0.05}),
    "restarts": ("CosineDecayRestarts", {"initial_learning_rate": 0.1, "first_decay_steps": 10}),
    "restarts_even": (
        "CosineDecayRestarts",
        {"initial_learning_rate": 0.1, "first_decay_steps": 15, "t_mul": 1.0, "m_mul": 0.7, "alpha": 0.1},
    ),
    "restarts_set": (
        "CosineDecayRestarts",
        {"initial_learning_rate": 0.1, "first_decay_steps": 9, "t_mul": 1.5, "m_mul": 0.8, "alpha": 0.01},
    ),
    "polynomial": (
        "PolynomialDecay",
        {"initial_learning_rate": 0.1, "decay_steps": 80, "end_learning_rate": 0.01, "power": 0.5},
    ),
    "polynomial_cycle": (
        "PolynomialDecay",
        {"initial_learning_rate": 0.1, "decay_steps": 30, "end_learning_rate": 0.01, "power": 2.0, "cycle": True},
    ),
}


def main():
    keras.backend.set_floatx("float64")
    arrays = {}
    for key, (name, arguments) in CONFIGURATIONS.items():
        schedule = getattr(keras.optimizers.schedules, name)(**arguments)
        arrays[key] = np.array([float(schedule(np.float64(step))) for step in range(STEPS)])
    versions = {"keras": keras.__version__, "jax": jax.__version__}
    golden.save("schedules_keras.npz", arrays, __file__, versions, configurations=CONFIGURATIONS)


if __name__ == "__main__":
    main()
