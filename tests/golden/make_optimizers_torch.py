"""Writes optimizers_torch.npz: parameters along 100 steps of PyTorch's optimizers. Run: python make_optimizers_torch.py"""

import numpy as np
import torch

import golden

# Names ending in `_set` use the values given; all else is PyTorch's default.
CONFIGURATIONS = {
    "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}),
    "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "nesterov_l2": ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.2}),
    "adam": ("Adam", {}),
    "adam_l2": ("Adam", {"weight_decay": 0.2}),
    "adam_set": ("Adam", {"lr": 0.003, "betas": (0.85, 0.98), "eps": 1e-5}),
    "adam_amsgrad": ("Adam", {"amsgrad": True}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop_set": ("RMSprop", {"lr": 0.004, "alpha": 0.8, "eps": 1e-5}),
    "rmsprop_momentum": ("RMSprop", {"momentum": 0.9}),
    "rmsprop_centered": ("RMSprop", {"centered": True}),
    "rmsprop_centered_set": (
        "RMSprop",
        {"lr": 0.004, "alpha": 0.8, "momentum": 0.5, "eps": 1e-5, "centered": True},
    ),
    "adamw": ("AdamW", {}),
    "adamw_set": ("AdamW", {"lr": 0.003, "betas": (0.85, 0.98), "eps": 1e-5, "weight_decay": 0.2, "amsgrad": True}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {}),
    "adadelta_set": ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-5}),
    "adamax": ("Adamax", {}),
    "adamax_set": ("Adamax", {"lr": 0.003, "betas": (0.85, 0.98), "eps": 1e-5}),
    "nadam": ("NAdam", {}),
    "nadam_set": (
        "NAdam",
        {
            "lr": 0.003,
            "betas": (0.85, 0.98),
            "eps": 1e-5,
            "momentum_decay": 0.1,
            "weight_decay": 0.2,
            "decoupled_weight_decay": True,
        },
    ),
    "radam": ("RAdam", {}),
    "radam_set": (
        "RAdam",
        {"lr": 0.003, "betas": (0.85, 0.9), "eps": 1e-5, "weight_decay": 0.2, "decoupled_weight_decay": True},
    ),
    "rprop": ("Rprop", {}),
    "rprop_set": ("Rprop", {"lr": 0.05, "etas": (0.6, 1.3), "step_sizes": (0.01, 0.1)}),
}


def trajectory(make_optimizer, initial, gradients, dtype):
    """Parameters after golden.KEPT_STEPS, stacked: {name: (6, ...)}, and the optimizer."""
    parameters = {name: torch.nn.Parameter(torch.tensor(value, dtype=dtype)) for name, value in initial.items()}
    optimizer = make_optimizer(list(parameters.values()))
    kept = {name: [] for name in initial}
    for step in range(1, 101):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradients[name][step - 1], dtype=dtype)
        optimizer.step()
        if step in golden.KEPT_STEPS:
            for name, parameter in parameters.items():
                kept[name].append(parameter.detach().numpy().copy())
    return {name: np.stack(values) for name, values in kept.items()}, optimizer


def main():
    torch.set_num_threads(1)
    initial, gradients = golden.optimizer_problem()
    arrays = {"steps": np.array(golden.KEPT_STEPS, dtype=np.int64)}
    for name in initial:
        arrays[f"initial.{name}"] = initial[name]
        arrays[f"gradients.{name}"] = gradients[name]
    hyperparameters = {}
    for key, (optimizer_name, arguments) in CONFIGURATIONS.items():
        for dtype, short in ((torch.float64, "f64"), (torch.float32, "f32")):
            torch.set_default_dtype(dtype)  # which NAdam keeps its product of momenta in
            make_optimizer = lambda parameters: getattr(torch.optim, optimizer_name)(parameters, **arguments)
            values, optimizer = trajectory(make_optimizer, initial, gradients, dtype)
            for name, value in values.items():
                arrays[f"{key}.{short}.{name}"] = value
        wanted = "lr momentum dampening nesterov betas eps amsgrad alpha centered weight_decay rho momentum_decay etas step_sizes".split()
        hyperparameters[key] = {"class": optimizer_name} | {
            k: optimizer.defaults[k] for k in wanted if k in optimizer.defaults
        }
    golden.save(
        "optimizers_torch.npz", arrays, __file__, {"torch": torch.__version__}, hyperparameters=hyperparameters
    )


if __name__ == "__main__":
    main()
