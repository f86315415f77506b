"""Writes functions_torch.npz: functions composed of other ops, with gradients, by PyTorch in f64. Run: python make_functions_torch.py

Each has the same input x (3, 4, 5), whose row x[1, 2] is all zeros, as is the plane x[:, :, 3].
"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

FUNCTIONS = {
    "standard_deviation": lambda x: torch.std(x, (0, 2), correction=1),
    "standard_deviation_biased": lambda x: torch.std(x, 2, correction=0, keepdim=True),
    "norm": lambda x: torch.linalg.vector_norm(x),
    "norm_1": lambda x: torch.linalg.vector_norm(x, 1, (1,)),
    "norm_2": lambda x: torch.linalg.vector_norm(x, 2, (2,), keepdim=True),
    "norm_3.5": lambda x: torch.linalg.vector_norm(x, 3.5, (0, 1)),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, torch.inf, (2,)),
    "roll": lambda x: torch.roll(x, (1, -7, 5), (0, 2, 1)),
    "tile": lambda x: torch.tile(x, (2, 3)),
    "tile_longer": lambda x: torch.tile(x, (2, 1, 3, 1)),
    "masked_fill": lambda x: x.masked_fill(x[0] > 0, -2.5),
}


def attend(q, k, v, mask):
    """Heads third; fewer heads of keys than of queries."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def heads(keys):
    return [(2, 4, 4, 3), (2, keys, 2, 3), (2, keys, 2, 3)]


# Of several tensors: their shapes, and the function.
OF_SEVERAL = {
    "attention_bias": ([*heads(5), (4, 4, 5)], attend),
    "attention_bias_of_samples": ([*heads(5), (2, 1, 1, 5)], attend),
    "attention_bool_mask": (heads(5), lambda q, k, v: attend(q, k, v, SEEN)),
    "attention_causal_bias": (
        [*heads(4), (4, 4)],
        lambda q, k, v, bias: attend(q, k, v, bias.masked_fill(~torch.ones(4, 4, dtype=torch.bool).tril(), -torch.inf)),
    ),
    "normalize": ([(3, 4, 5)], F.normalize),
    "normalize_1": ([(3, 4)], lambda x: F.normalize(x, 1, 0, 2.5)),
    "cosine_similarity": ([(3, 4), (2, 1, 4)], lambda a, b: F.cosine_similarity(a, b, -1)),
    "cosine_similarity_first": ([(3, 4), (3, 1)], lambda a, b: F.cosine_similarity(a, b, 0, 0.1)),
    "pairwise_distances": ([(2, 3, 4), (5, 4)], torch.cdist),
    "pairwise_distances_1": ([(3, 4), (2, 4)], lambda a, b: torch.cdist(a, b, 1.0)),
    "scatter": ([(5, 2), (3, 2)], lambda x, y: x.index_copy(0, torch.tensor([4, 0, 2]), y)),
    "scatter_columns": ([(2, 5, 2), (2, 3, 2)], lambda x, y: x.index_copy(1, torch.tensor([1, 3, 0]), y)),
}
# (N, 1, T, S): which keys each query sees; each sees one.
SEEN = (torch.arange(40).reshape(2, 1, 4, 5) % 3 > 0) | (torch.arange(5) == 1)
# Without a gradient.
COUNTS = {
    "any": lambda x: torch.any(x, 2),
    "all": lambda x: torch.all(x, 2, keepdim=True),
    "count_nonzero": lambda x: torch.count_nonzero(x, (0, 1)),
}


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    x = rng.standard_normal((3, 4, 5))
    x[1, 2] = 0.0
    x[:, :, 3] = 0.0
    arrays = {"x": x, "linspace": torch.linspace(-1.5, 2.25, 8, dtype=torch.float64).numpy()}
    for name, function in FUNCTIONS.items():
        tensor = torch.tensor(x, requires_grad=True)
        y = function(tensor)
        dy = rng.standard_normal(tuple(y.shape))
        (y * torch.tensor(dy)).sum().backward()
        arrays |= {f"{name}.y": y.detach().numpy().copy(), f"{name}.dy": dy, f"{name}.dx": tensor.grad.numpy()}
    for name, function in COUNTS.items():
        arrays[f"{name}.y"] = function(torch.tensor(x)).numpy().astype(np.int64)
    arrays["seen"] = SEEN.numpy().astype(np.int64)
    for name, (shapes, function) in OF_SEVERAL.items():
        inputs = [torch.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]
        y = function(*inputs)
        dy = rng.standard_normal(tuple(y.shape))
        (y * torch.tensor(dy)).sum().backward()
        arrays |= {f"{name}.y": y.detach().numpy().copy(), f"{name}.dy": dy}
        for i, value in enumerate(inputs):
            arrays |= {f"{name}.x{i}": value.detach().numpy(), f"{name}.dx{i}": value.grad.numpy()}
    golden.save("functions_torch.npz", arrays, __file__, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
