"""Writes losses_torch.npz: losses with their options and gradients, by PyTorch in f64. Run: python make_losses_torch.py"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

IGNORED = -100


def record(arrays, name, loss, x):
    """A loss (scalar or one number a row) and the gradient of its sum with respect to x."""
    y = loss(x)
    (dx,) = torch.autograd.grad(y.sum(), x)
    arrays[f"{name}.y"] = y.detach().numpy()
    arrays[f"{name}.dx"] = dx.numpy()


def cross_entropies(arrays, rng):
    x = torch.tensor(rng.standard_normal((8, 5)) * 2, requires_grad=True)
    labels = torch.tensor([0, 4, IGNORED, 2, 1, IGNORED, 3, 4])
    full = labels.clamp(min=0)
    weights = torch.tensor(rng.uniform(0.2, 3, 5))
    targets = torch.softmax(torch.tensor(rng.standard_normal((8, 5))), 1)
    arrays |= {
        "x": x.detach().numpy(),
        "labels": labels.numpy(),
        "full_labels": full.numpy(),
        "weights": weights.numpy(),
        "targets": targets.numpy(),
    }
    cases = {
        "smooth": (full, {"label_smoothing": 0.1}),
        "weighted": (full, {"weight": weights}),
        "ignored": (labels, {"ignore_index": IGNORED}),
        "all": (labels, {"ignore_index": IGNORED, "weight": weights, "label_smoothing": 0.2}),
        "dense_smooth": (targets, {"label_smoothing": 0.1}),
        "dense_all": (targets, {"weight": weights, "label_smoothing": 0.2}),
    }
    for name, (target, options) in cases.items():
        for reduction in ("mean", "sum", "none"):
            loss = lambda x: F.cross_entropy(x, target, reduction=reduction, **options)
            record(arrays, f"cross_entropy.{name}.{reduction}", loss, x)


def elementwise(arrays, rng):
    x = torch.tensor(rng.standard_normal((4, 3)) * 3, requires_grad=True)
    t = torch.tensor(rng.uniform(0, 1, (4, 3)))
    p = torch.softmax(torch.tensor(rng.standard_normal((4, 3))), 1)
    p[0, 0], p[0, 1] = 0.0, p[0, 0] + p[0, 1]  # 0 log 0 = 0
    weight = torch.tensor(rng.uniform(0.5, 4, 3))
    arrays |= {"e.x": x.detach().numpy(), "e.t": t.numpy(), "e.p": p.numpy(), "e.weight": weight.numpy()}
    record(arrays, "binary", lambda x: F.binary_cross_entropy_with_logits(x, t, pos_weight=weight), x)
    record(arrays, "kl", lambda x: F.kl_div(F.log_softmax(x, 1), p, reduction="batchmean"), x)
    record(arrays, "cosine", lambda x: F.cosine_embedding_loss(x, t, torch.ones(4, dtype=x.dtype)), x)
    record(arrays, "log_cosh", lambda x: torch.log(torch.cosh(x - t)).mean(), x)


def reductions(arrays, rng):
    """Every loss under PyTorch's three reductions, over all elements of (4, 3, 5); labels and rows are (4, 3)."""
    x = torch.tensor(rng.standard_normal((4, 3, 5)), requires_grad=True)
    t = torch.tensor(rng.standard_normal((4, 3, 5)))
    p = torch.tensor(rng.uniform(0.05, 0.95, (4, 3, 5)), requires_grad=True)
    y = torch.tensor(rng.uniform(0, 1, (4, 3, 5)))
    labels = torch.tensor(rng.integers(0, 5, (4, 3)))
    ignored = labels.clone()
    ignored[1, 2] = ignored[3, 0] = IGNORED
    targets = torch.softmax(torch.tensor(rng.standard_normal((4, 3, 5))), 2)
    arrays |= {"r.x": x.detach().numpy(), "r.t": t.numpy(), "r.p": p.detach().numpy(), "r.y": y.numpy()}
    arrays |= {"r.labels": labels.numpy(), "r.ignored": ignored.numpy(), "r.targets": targets.numpy()}
    for reduction in ("mean", "sum", "none"):
        r = {"reduction": reduction}
        record(arrays, f"r.mse.{reduction}", lambda x: F.mse_loss(x, t, **r), x)
        record(arrays, f"r.mae.{reduction}", lambda x: F.l1_loss(x, t, **r), x)
        record(arrays, f"r.huber.{reduction}", lambda x: F.huber_loss(x, t, delta=0.7, **r), x)
        record(arrays, f"r.bce.{reduction}", lambda p: F.binary_cross_entropy(p, y, **r), p)
        record(arrays, f"r.bce_logits.{reduction}", lambda x: F.binary_cross_entropy_with_logits(x, y, **r), x)
        classes = lambda x: x.movedim(2, 1)  # PyTorch's classes are axis 1
        record(arrays, f"r.labels.{reduction}", lambda x: F.cross_entropy(classes(x), labels, **r), x)
        record(arrays, f"r.ignored.{reduction}", lambda x: F.cross_entropy(classes(x), ignored, **r), x)
        record(arrays, f"r.targets.{reduction}", lambda x: F.cross_entropy(classes(x), classes(targets), **r), x)


def main():
    rng = np.random.default_rng(golden.SEED)
    arrays = {}
    cross_entropies(arrays, rng)
    elementwise(arrays, rng)
    reductions(arrays, rng)
    golden.save("losses_torch.npz", arrays, __file__, {"torch": torch.__version__}, ignore_index=IGNORED)


if __name__ == "__main__":
    main()
