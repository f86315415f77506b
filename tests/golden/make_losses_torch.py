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


def record_reductions(arrays, name, loss, x):
    """Under PyTorch's three reductions; `loss` takes the keyword `reduction`."""
    for reduction in ("mean", "sum", "none"):
        record(arrays, f"{name}.{reduction}", lambda x: loss(x, reduction=reduction), x)


def margins(arrays, rng):
    x = torch.tensor(rng.standard_normal((4, 3, 5)) * 2, requires_grad=True)
    y = torch.tensor(rng.standard_normal((4, 3, 5)) * 2, requires_grad=True)
    z = torch.tensor(rng.standard_normal((4, 3, 5)) * 2, requires_grad=True)
    with torch.no_grad():  # ties: at the kink of hinge_embedding, of margin_ranking
        x[0, 0, 0], x[0, 0, 1] = 1.5, y[0, 0, 1]
    sign = torch.tensor(rng.choice([-1.0, 1.0], (4, 3, 5)))
    sign[0, 0, 0] = -1
    rows = torch.tensor(rng.standard_normal((6, 5)), requires_grad=True)
    others = torch.tensor(rng.standard_normal((6, 5)))
    row_sign = torch.tensor([1.0, -1, -1, 1, -1, -1], dtype=torch.float64)
    labels = torch.tensor([0, 4, 2, 2, 1, 3])
    several = torch.tensor(rng.integers(0, 2, (6, 5)).astype(float))
    weights = torch.tensor(rng.uniform(0.2, 3, 5))
    arrays |= {"m.x": x.detach().numpy(), "m.y": y.detach().numpy(), "m.z": z.detach().numpy(), "m.sign": sign.numpy()}
    arrays |= {"m.rows": rows.detach().numpy(), "m.others": others.numpy(), "m.row_sign": row_sign.numpy()}
    arrays |= {"m.labels": labels.numpy(), "m.several": several.numpy(), "m.weights": weights.numpy()}
    each = lambda name, loss, x: record_reductions(arrays, f"m.{name}", loss, x)
    each("hinge_embedding", lambda x, **r: F.hinge_embedding_loss(x, sign, margin=1.5, **r), x)
    each("ranking", lambda x, **r: F.margin_ranking_loss(x, y, sign, **r), x)
    each("ranking_second", lambda y, **r: F.margin_ranking_loss(x, y, sign, margin=0.5, **r), y)
    each("cosine", lambda x, **r: F.cosine_embedding_loss(x, others, row_sign, margin=0.1, **r), rows)
    each("triplet", lambda x, **r: F.triplet_margin_loss(x, y, z, margin=1.2, **r), x)
    each("triplet_positive", lambda y, **r: F.triplet_margin_loss(x, y, z, eps=0.01, swap=True, **r), y)
    each("triplet_negative", lambda z, **r: F.triplet_margin_loss(x, y, z, swap=True, **r), z)
    each("smooth", lambda x, **r: F.smooth_l1_loss(x, y, beta=1.3, **r), x)
    each("smooth_zero", lambda x, **r: F.smooth_l1_loss(x, y, beta=0.0, **r), x)
    each("soft", lambda x, **r: F.soft_margin_loss(x, sign, **r), x)
    each("multi_label", lambda x, **r: F.multilabel_soft_margin_loss(x, several, **r), rows)
    each("multi_label_weighted", lambda x, **r: F.multilabel_soft_margin_loss(x, several, weight=weights, **r), rows)
    each("multi", lambda x, **r: F.multi_margin_loss(x, labels, **r), rows)
    each("multi_all", lambda x, **r: F.multi_margin_loss(x, labels, p=2, margin=0.7, weight=weights, **r), rows)


def likelihoods(arrays, rng):
    x = torch.tensor(rng.standard_normal((4, 3, 5)), requires_grad=True)
    rates = torch.tensor(rng.uniform(0.1, 6, (4, 3, 5)), requires_grad=True)
    counts = torch.tensor(rng.integers(0, 5, (4, 3, 5)).astype(float))
    t = torch.tensor(rng.standard_normal((4, 3, 5)))
    variance = torch.tensor(rng.uniform(0.05, 2, (4, 3, 5)), requires_grad=True)
    row_variance = torch.tensor(rng.uniform(0.05, 2, (4, 3, 1)), requires_grad=True)
    arrays |= {"l.x": x.detach().numpy(), "l.rates": rates.detach().numpy(), "l.counts": counts.numpy(), "l.t": t.numpy()}
    arrays |= {"l.variance": variance.detach().numpy(), "l.row_variance": row_variance.detach().numpy()}
    each = lambda name, loss, x: record_reductions(arrays, f"l.{name}", loss, x)
    each("poisson", lambda x, **r: F.poisson_nll_loss(x, counts, **r), x)
    each("poisson_full", lambda x, **r: F.poisson_nll_loss(x, counts, full=True, **r), x)
    each("poisson_rates", lambda x, **r: F.poisson_nll_loss(x, counts, log_input=False, full=True, eps=1e-3, **r), rates)
    each("gaussian", lambda x, **r: F.gaussian_nll_loss(x, t, variance, **r), x)
    each("gaussian_variance", lambda v, **r: F.gaussian_nll_loss(x, t, v, full=True, eps=0.4, **r), variance)
    each("gaussian_rows", lambda v, **r: F.gaussian_nll_loss(x, t, v, eps=0.4, **r), row_variance)


def ctc(arrays, rng):
    """Logits (N, T, C), which PyTorch takes with the time first; the last sample has no alignment."""
    x = torch.tensor(rng.standard_normal((6, 8, 5)) * 2, requires_grad=True)
    labels = torch.tensor([[1, 2, 3], [2, 2, 1], [4, 0, 0], [3, 3, 0], [0, 0, 0], [1, 1, 1]])
    label_lengths = torch.tensor([3, 3, 1, 2, 0, 3])
    input_lengths = torch.tensor([8, 6, 1, 3, 5, 4])
    arrays |= {"ctc.x": x.detach().numpy(), "ctc.labels": labels.numpy(), "ctc.label_lengths": label_lengths.numpy()}
    arrays |= {"ctc.input_lengths": input_lengths.numpy()}

    def loss(x, samples=6, shift=0, **options):
        log_p = F.log_softmax(x[:samples], 2).transpose(0, 1)
        return F.ctc_loss(log_p, labels[:samples] - shift, input_lengths[:samples], label_lengths[:samples], **options)

    record_reductions(arrays, "ctc.possible", lambda x, **r: loss(x, samples=5, **r), x)
    record_reductions(arrays, "ctc.last_blank", lambda x, **r: loss(x, samples=5, shift=1, blank=4, **r), x)
    record_reductions(arrays, "ctc.zero_infinity", lambda x, **r: loss(x, zero_infinity=True, **r), x)


def main():
    rng = np.random.default_rng(golden.SEED)
    arrays = {}
    cross_entropies(arrays, rng)
    elementwise(arrays, rng)
    reductions(arrays, rng)
    margins(arrays, rng)
    likelihoods(arrays, rng)
    ctc(arrays, rng)
    golden.save("losses_torch.npz", arrays, __file__, {"torch": torch.__version__}, ignore_index=IGNORED)


if __name__ == "__main__":
    main()
