"""Writes functions_torch.npz: functions composed of other ops, with gradients, by PyTorch in f64. Run: python make_functions_torch.py

Each has the same input x (3, 4, 5), whose row x[1, 2] is all zeros, as is the plane x[:, :, 3].
"""

import numpy as np
import torch
import torch.distributions as D
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


def first(x):
    """Channels first."""
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def density(distribution, x):
    """log_prob and entropy, one behind the other."""
    return torch.cat([distribution.log_prob(x).flatten(), distribution.entropy().flatten()])


def kl(kind, a, b, c, d):
    return D.kl_divergence(kind(a, b), kind(c, d))


def rotary(x, interleaved):
    """Of x (N, T, H, D): pairs of elements as complex numbers, turned."""
    pairs = x.shape[-1] // 2
    angle = torch.arange(x.shape[1]).double()[:, None, None] * 10000.0 ** (-torch.arange(pairs).double() / pairs)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    parts = (turned.real, turned.imag)
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


# By number of spatial axes: their extents, and PyTorch's list of pads, the last axis first.
PADS = {
    1: ((4,), (3, 1)),
    2: ((4, 3), (0, 2, 3, 1)),
    3: ((2, 3, 4), (3, 2, 1, 2, 1, 0)),
}

# Adaptive pooling: extents of the images, and the size; None keeps an extent.
ADAPTIVE = {
    "1d": ((11,), (4,)),
    "divides": ((6, 8), (3, 2)),
    "ragged": ((7, 10), (3, 4)),
    "larger": ((3, 5), (7, 5)),
    "kept": ((5, 9), (None, 7)),
    "3d": ((4, 5, 3), (3, 2, 1)),
}


def unfold(x, window, **options):
    """Rows (N, H', W', kh kw C) of x (N, H, W, C)."""
    columns = F.unfold(first(x), window, **options)
    outputs = [
        (x.shape[i + 1] + 2 * options.get("padding", (0, 0))[i] - (window[i] - 1) * options.get("dilation", (1, 1))[i] - 1)
        // options.get("stride", (1, 1))[i]
        + 1
        for i in (0, 1)
    ]
    windows = columns.reshape(x.shape[0], x.shape[3], *window, *outputs)
    return windows.permute(0, 4, 5, 2, 3, 1).reshape(x.shape[0], *outputs, -1)


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
    "tan": ([(3, 4)], torch.tan),
    "asin": ([(3, 4)], lambda x: torch.asin(torch.tanh(x))),
    "acos": ([(3, 4)], lambda x: torch.acos(torch.tanh(x))),
    "atan": ([(3, 4)], torch.atan),
    "sinh": ([(3, 4)], torch.sinh),
    "cosh": ([(3, 4)], torch.cosh),
    "asinh": ([(3, 4)], torch.asinh),
    "acosh": ([(3, 4)], lambda x: torch.acosh(torch.exp(x) + 1)),
    "atanh": ([(3, 4)], lambda x: torch.atanh(torch.tanh(x) * 0.9)),
    "lgamma": ([(3, 4)], lambda x: torch.lgamma(x * 3)),
    "digamma": ([(3, 4)], lambda x: torch.digamma(x * 3)),
    "digamma_positive": ([(3, 4)], lambda x: torch.digamma(torch.exp(x * 3))),
    "log2": ([(3, 4)], lambda x: torch.log2(torch.exp(x))),
    "log10": ([(3, 4)], lambda x: torch.log10(torch.exp(x))),
    "logit": ([(3, 4)], lambda x: torch.logit(torch.sigmoid(x))),
    "log_add_exp": ([(3, 4), (4,)], lambda a, b: torch.logaddexp(a * 50, b * 50)),
    "lerp": ([(3, 4), (4,), (3, 1)], torch.lerp),
    "remainder": ([(3, 4), (4,)], lambda a, b: torch.remainder(a * 5, b)),
    "softsign": ([(3, 4)], F.softsign),
    "hard_tanh": ([(3, 4)], lambda x: F.hardtanh(x, -0.5, 0.8)),
    "hard_sigmoid": ([(3, 4)], lambda x: F.hardsigmoid(x * 3)),
    "hard_swish": ([(3, 4)], lambda x: F.hardswish(x * 3)),
    "mish": ([(3, 4)], F.mish),
    "log_sigmoid": ([(3, 4)], lambda x: F.logsigmoid(x * 30)),
    "celu": ([(3, 4)], lambda x: F.celu(x, 0.7)),
    "hard_shrink": ([(3, 4)], F.hardshrink),
    "soft_shrink": ([(3, 4)], lambda x: F.softshrink(x, 0.3)),
    "prelu": ([(3, 4), (4,)], F.prelu),
    "glu": ([(3, 4)], F.glu),
    "glu_first": ([(4, 3)], lambda x: F.glu(x, 0)),
    "select": ([(3, 4, 2)], lambda x: x.select(1, -2)),
    "unstack": ([(3, 4)], lambda x: x.unbind(1)[2] * x.unbind()[1][0]),
    "repeat_interleave": ([(3, 4)], lambda x: x.repeat_interleave(3, 1)),
    "diff": ([(3, 4)], lambda x: torch.diff(x, dim=0)),
    "swap_axes": ([(2, 3, 4)], lambda x: x.transpose(-1, 0)),
    "flatten": ([(2, 3, 4, 2)], lambda x: x.flatten(1, -2)),
    "meshgrid": ([(3,), (4,)], lambda a, b: torch.stack(torch.meshgrid(a, b, indexing="ij"))),
    "pixel_shuffle": ([(2, 3, 4, 8)], lambda x: last(F.pixel_shuffle(first(x), 2))),
    "pixel_unshuffle": ([(2, 6, 4, 3)], lambda x: last(F.pixel_unshuffle(first(x), 2))),
    "diagonal_matrix": ([(2, 3)], torch.diag_embed),
    "trace": ([(4, 4)], torch.trace),
    "outer": ([(3,), (4,)], torch.outer),
    **{
        f"grid_sample_{mode}_{edge}_{corners}": (
            [(2, 4, 5, 3), (2, 3, 6, 2)],
            lambda x, grid, mode=mode, edge=edge, corners=corners: last(
                F.grid_sample(first(x), grid, mode, edge, corners == "corners")
            ),
        )
        for mode in ("bilinear", "nearest")
        for edge in ("zeros", "border")
        for corners in ("corners", "areas")
    },
    "affine_grid": ([(2, 2, 3)], lambda theta: F.affine_grid(theta, (2, 1, 4, 5), False)),
    "affine_grid_corners": ([(2, 2, 3)], lambda theta: F.affine_grid(theta, (2, 1, 4, 5), True)),
    "rotary": ([(2, 5, 3, 6)], lambda x: rotary(x, False)),
    "rotary_interleaved": ([(2, 5, 3, 6)], lambda x: rotary(x, True)),
    "normal": ([(3, 4), (4,), (3, 4)], lambda m, s, x: density(D.Normal(m, s.exp()), x)),
    "normal_cdf": ([(3, 4), (4,), (3, 4)], lambda m, s, x: D.Normal(m, s.exp()).cdf(x)),
    "normal_kl": ([(3, 4), (4,), (4,), (3, 1)], lambda a, b, c, d: kl(D.Normal, a, b.exp(), c, d.exp())),
    "laplace": ([(3, 4), (4,), (3, 4)], lambda m, s, x: density(D.Laplace(m, s.exp()), x)),
    "laplace_kl": ([(3, 4), (4,), (4,), (3, 1)], lambda a, b, c, d: kl(D.Laplace, a, b.exp(), c, d.exp())),
    "exponential": ([(3, 4), (3, 4)], lambda r, x: density(D.Exponential(r.exp()), x.exp())),
    "bernoulli": ([(3, 4), (3, 4)], lambda p, x: density(D.Bernoulli(logits=p), (x > 0).to(x) + 0 * x)),
    "bernoulli_kl": (
        [(3, 4), (3, 4)],
        lambda p, q: D.kl_divergence(D.Bernoulli(logits=p), D.Bernoulli(logits=q)),
    ),
    "categorical": ([(3, 4)], lambda p: density(D.Categorical(logits=p), torch.tensor([2, 0, 3]))),
    "categorical_kl": (
        [(3, 4), (3, 4)],
        lambda p, q: D.kl_divergence(D.Categorical(logits=p), D.Categorical(logits=q)),
    ),
    "gamma": ([(3, 4), (4,), (3, 4)], lambda a, b, x: density(D.Gamma(a.exp(), b.exp()), x.exp())),
    "gamma_kl": ([(3, 4), (4,), (4,), (3, 1)], lambda a, b, c, d: kl(D.Gamma, a.exp(), b.exp(), c.exp(), d.exp())),
    "beta": ([(3, 4), (4,), (3, 4)], lambda a, b, x: density(D.Beta(a.exp(), b.exp()), x.sigmoid())),
    "dirichlet": ([(3, 4), (3, 4)], lambda c, x: density(D.Dirichlet(c.exp()), x.softmax(-1))),
    "poisson": ([(3, 4)], lambda r: D.Poisson(r.exp()).log_prob(torch.arange(12.0).reshape(3, 4).double())),
    "tanh_normal": (
        [(3, 4), (4,), (3, 4)],
        lambda m, s, x: D.TransformedDistribution(D.Normal(m, s.exp()), D.TanhTransform()).log_prob(torch.tanh(x)),
    ),
    **{
        f"pad_{mode}_{axes}d": (
            [(2, *extents, 3)],
            lambda x, mode=mode, pads=pads: last(F.pad(first(x), pads, mode)),
        )
        for mode in ("reflect", "replicate", "circular")
        for axes, (extents, pads) in PADS.items()
    },
    **{
        f"adaptive_{kind}_pool_{name}": (
            [(2, *extents, 3)],
            lambda x, pool=pool, size=size: last(pool(first(x), size)),
        )
        for name, (extents, size) in ADAPTIVE.items()
        for kind, pool in (
            ("average", (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[len(size) - 1]),
            ("max", (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)[len(size) - 1]),
        )
    },
    "unfold": ([(2, 5, 4, 3)], lambda x: unfold(x, (3, 2))),
    "unfold_set": (
        [(2, 5, 4, 3)],
        lambda x: unfold(x, (2, 3), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
    ),
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
