"""Writes matrix_torch.npz: torch.linalg on batches of matrices in f64, with gradients. Run: python make_matrix_torch.py"""

import numpy as np
import torch

import golden

CASES = {
    "cholesky": (("spd",), lambda a: (torch.linalg.cholesky(a),)),
    "solve": (("square", "sides"), lambda a, b: (torch.linalg.solve(a, b),)),
    "triangular_solve": (("square", "sides"), lambda a, b: (torch.linalg.solve_triangular(a, b, upper=False),)),
    "inverse": (("square",), lambda a: (torch.linalg.inv(a),)),
    "slogdet": (("square",), lambda a: tuple(torch.linalg.slogdet(a))),
    "determinant": (("square",), lambda a: (torch.linalg.det(a),)),
    "qr": (("tall",), lambda a: tuple(torch.linalg.qr(a))),
    "qr_square": (("square",), lambda a: tuple(torch.linalg.qr(a))),
}


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    square = rng.standard_normal((2, 3, 5, 5)) + 2.0 * np.eye(5)
    inputs = {
        "square": square,
        "spd": square @ np.swapaxes(square, -1, -2) + np.eye(5),
        "tall": rng.standard_normal((4, 7, 3)),
        "sides": rng.standard_normal((2, 3, 5, 2)),
    }
    arrays = dict(inputs)
    for name, (names, function) in CASES.items():
        tensors = [torch.tensor(inputs[key], requires_grad=True) for key in names]
        outputs = function(*tensors)
        seeds = [rng.standard_normal(tuple(output.shape)) for output in outputs]
        sum((output * torch.tensor(seed)).sum() for output, seed in zip(outputs, seeds)).backward()
        for i, (output, seed) in enumerate(zip(outputs, seeds)):
            arrays[f"{name}.y{i}"] = np.ascontiguousarray(output.detach().numpy())
            arrays[f"{name}.dy{i}"] = seed
        for i, tensor in enumerate(tensors):
            arrays[f"{name}.dx{i}"] = np.ascontiguousarray(tensor.grad.numpy())
    golden.save("matrix_torch.npz", arrays, __file__, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
