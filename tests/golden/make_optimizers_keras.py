"""Writes optimizers_keras.npz: parameters along 100 steps of Keras' optimizers. Run: python make_optimizers_keras.py

Keras runs on its JAX backend: on the TensorFlow backend beta_1, beta_2 and momentum pass through float32 even where
everything is float64 (keras.ops.cast(0.9, "float64") gives 0.89999998), which costs nine of the sixteen digits.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import keras
import numpy as np

import golden

# Names ending in `_set` use the values given; all else is Keras' default.
CONFIGURATIONS = {
    "sgd": ("SGD", {}),
    "sgd_set": ("SGD", {"learning_rate": 0.05}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "momentum_set": ("SGD", {"learning_rate": 0.05, "momentum": 0.8}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "nesterov_set": ("SGD", {"learning_rate": 0.05, "momentum": 0.8, "nesterov": True}),
    "adam": ("Adam", {}),
    "adam_set": ("Adam", {"learning_rate": 0.003, "beta_1": 0.85, "beta_2": 0.98, "epsilon": 1e-5}),
    "adam_amsgrad": ("Adam", {"amsgrad": True}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop_set": ("RMSprop", {"learning_rate": 0.004, "rho": 0.8, "epsilon": 1e-5}),
    "rmsprop_momentum": ("RMSprop", {"momentum": 0.9}),
    "rmsprop_momentum_set": ("RMSprop", {"learning_rate": 0.004, "rho": 0.8, "momentum": 0.5, "epsilon": 1e-5}),
    "rmsprop_centered": ("RMSprop", {"centered": True}),
    "rmsprop_centered_set": (
        "RMSprop",
        {"learning_rate": 0.004, "rho": 0.8, "momentum": 0.5, "epsilon": 1e-5, "centered": True},
    ),
    "adagrad": ("Adagrad", {}),
    "adagrad_set": ("Adagrad", {"learning_rate": 0.02, "initial_accumulator_value": 0.3, "epsilon": 1e-5}),
    "adadelta": ("Adadelta", {}),
    "adadelta_set": ("Adadelta", {"learning_rate": 0.5, "rho": 0.8, "epsilon": 1e-5}),
    "adamax": ("Adamax", {}),
    "adamax_set": ("Adamax", {"learning_rate": 0.003, "beta_1": 0.85, "beta_2": 0.98, "epsilon": 1e-5}),
    "nadam": ("Nadam", {}),
    "nadam_set": ("Nadam", {"learning_rate": 0.003, "beta_1": 0.85, "beta_2": 0.98, "epsilon": 1e-5}),
    "lion": ("Lion", {}),
    "lion_set": ("Lion", {"learning_rate": 0.003, "beta_1": 0.85, "beta_2": 0.95}),
    "lion_decay": ("Lion", {"weight_decay": 0.5}),
    "adafactor": ("Adafactor", {}),
    "adafactor_set": (
        "Adafactor",
        {
            "learning_rate": 0.3,
            "beta_2_decay": -0.6,
            "epsilon_1": 1e-20,
            "epsilon_2": 0.5,
            "clip_threshold": 0.25,
            "weight_decay": 0.1,
        },
    ),
    "lamb": ("Lamb", {}),
    "lamb_set": (
        "Lamb",
        {"learning_rate": 0.02, "beta_1": 0.85, "beta_2": 0.98, "epsilon": 1e-5, "weight_decay": 0.1},
    ),
    "clip_value": ("SGD", {"learning_rate": 0.05, "clipvalue": 0.4}),
    "clip_norm": ("SGD", {"learning_rate": 0.05, "clipnorm": 0.7}),
    "clip_global_norm": ("SGD", {"learning_rate": 0.05, "global_clipnorm": 0.7}),
    "average": ("SGD", {"learning_rate": 0.05, "use_ema": True, "ema_momentum": 0.9}),
}


def trajectory(optimizer, initial, gradients, dtype):
    """Parameters (their averages, where the optimizer keeps any) after golden.KEPT_STEPS, stacked: {name: (6, ...)}."""
    variables = {name: keras.Variable(value.astype(dtype), dtype=dtype) for name, value in initial.items()}
    optimizer.build(list(variables.values()))
    kept = {name: [] for name in initial}
    for step in range(1, 101):
        step_gradients = [jax.numpy.asarray(gradients[name][step - 1].astype(dtype)) for name in initial]
        optimizer.apply(step_gradients, list(variables.values()))
        if step in golden.KEPT_STEPS:
            averages = getattr(optimizer, "_model_variables_moving_average", None) or variables.values()
            for name, variable in zip(variables, averages):
                kept[name].append(np.asarray(variable.value))
    return {name: np.stack(values) for name, values in kept.items()}


def main():
    initial, gradients = golden.optimizer_problem()
    arrays = {"steps": np.array(golden.KEPT_STEPS, dtype=np.int64)}
    for name in initial:
        arrays[f"initial.{name}"] = initial[name]
        arrays[f"gradients.{name}"] = gradients[name]
    hyperparameters = {}
    for dtype, short in (("float64", "f64"), ("float32", "f32")):
        keras.backend.set_floatx(dtype)
        for key, (optimizer_name, arguments) in CONFIGURATIONS.items():
            optimizer = getattr(keras.optimizers, optimizer_name)(**arguments)
            for name, value in trajectory(optimizer, initial, gradients, dtype).items():
                assert value.dtype == dtype, (key, value.dtype)
                arrays[f"{key}.{short}.{name}"] = value
            if short == "f64":
                config = optimizer.get_config()
                wanted = (
                    "learning_rate momentum nesterov beta_1 beta_2 epsilon amsgrad rho centered weight_decay clipvalue "
                    "clipnorm global_clipnorm use_ema ema_momentum initial_accumulator_value beta_2_decay epsilon_1 "
                    "epsilon_2 clip_threshold"
                ).split()
                hyperparameters[key] = {"class": optimizer_name} | {k: config[k] for k in wanted if k in config}
    versions = {"keras": keras.__version__, "jax": jax.__version__}
    golden.save("optimizers_keras.npz", arrays, __file__, versions, hyperparameters=hyperparameters)


if __name__ == "__main__":
    main()
