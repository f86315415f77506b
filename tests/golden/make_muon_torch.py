"""Writes muon_torch.npz: matrices along 100 steps of PyTorch's Muon. Run: python make_muon_torch.py

PyTorch orthogonalizes in bf16; here its own function runs in the parameters' dtype, so that what differs shows.
"""

import numpy as np
import torch
import torch.optim._muon as muon

import golden

CONFIGURATIONS = {
    "muon": {},
    "muon_set": {
        "lr": 0.02,
        "weight_decay": 0.3,
        "momentum": 0.8,
        "nesterov": False,
        "ns_coefficients": (2.0, -1.5, 0.5),
        "ns_steps": 7,
        "eps": 1e-3,
        "adjust_lr_fn": "match_rms_adamw",
    },
}
SHAPES = {"wide": (3, 7), "tall": (8, 3), "square": (4, 4)}


class InParametersDtype:
    """torch as _muon.py sees it, where bfloat16 is the dtype that parameters have."""

    def __init__(self, dtype):
        self.bfloat16 = dtype

    def __getattr__(self, name):
        return getattr(torch, name)


def trajectory(initial, gradients, dtype, arguments):
    parameters = {name: torch.nn.Parameter(torch.tensor(value.T, dtype=dtype)) for name, value in initial.items()}
    optimizer = torch.optim.Muon(list(parameters.values()), **arguments)
    kept = {name: [] for name in initial}
    for step in range(1, 101):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(gradients[name][step - 1].T, dtype=dtype)
        optimizer.step()
        if step in golden.KEPT_STEPS:
            for name, parameter in parameters.items():
                kept[name].append(parameter.detach().numpy().T.copy())
    return {name: np.stack(values) for name, values in kept.items()}


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    initial = {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}
    gradients = {name: rng.standard_normal((100, *shape)) for name, shape in SHAPES.items()}
    arrays = {"steps": np.array(golden.KEPT_STEPS, dtype=np.int64)}
    for name in SHAPES:
        arrays[f"initial.{name}"] = initial[name]
        arrays[f"gradients.{name}"] = gradients[name]
    for key, arguments in CONFIGURATIONS.items():
        for dtype, short in ((torch.float64, "f64"), (torch.float32, "f32")):
            muon.torch = InParametersDtype(dtype)
            for name, value in trajectory(initial, gradients, dtype, arguments).items():
                arrays[f"{key}.{short}.{name}"] = value
            muon.torch = torch
    golden.save("muon_torch.npz", arrays, __file__, {"torch": torch.__version__}, hyperparameters=CONFIGURATIONS)


if __name__ == "__main__":
    main()
