"""Writes dlrm_torch.npz: losses of a recommendation model with sparse embedding gradients, trained by PyTorch's SparseAdam,
SGD and Adagrad. Run: python make_dlrm_torch.py

Naumov et al.: "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019. Tables are looked
up one number a sample, or by bags; their vectors and that of the dense features interact by dot products.
"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

STEPS, BATCH, WIDTH, DENSE = 40, 16, 8, 5
ROWS = {"user": 200, "item": 300, "kind": 7}  # looked up one number a sample; few rows, so that numbers repeat
BAG, BAG_ROWS, BAG_LENGTH = "tags", 120, 6  # a mean over up to BAG_LENGTH numbers, filled up with PADDING
PADDING = 3
CUT, CUT_ROWS, CUT_NUMBERS = "words", 90, 40  # a weighted sum over bags that offsets cut

# The dense parts learn by Adam beside SparseAdam, else by the optimizer of the tables.
OPTIMIZERS = {
    "sparse_adam": (
        lambda p: torch.optim.SparseAdam(p, lr=0.01),
        lambda p: torch.optim.Adam(p, lr=0.01),
    ),
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.5),) * 2,
    "adagrad": (lambda p: torch.optim.Adagrad(p, lr=0.05),) * 2,
}


def problem():
    rng = np.random.default_rng(golden.SEED)
    tables = {name: rng.normal(0, 0.5, (rows, WIDTH)) for name, rows in ROWS.items()}
    tables[BAG] = rng.normal(0, 0.5, (BAG_ROWS, WIDTH))
    tables[BAG][PADDING] = 0
    tables[CUT] = rng.normal(0, 0.5, (CUT_ROWS, WIDTH))
    vectors = len(tables) + 1
    pairs = vectors * (vectors - 1) // 2
    dense = {}
    for name, (inputs, outputs) in {"bottom": (DENSE, WIDTH), "top": (WIDTH + pairs, 12), "out": (12, 1)}.items():
        dense[f"{name}.kernel"] = rng.normal(0, inputs**-0.5, (inputs, outputs))
        dense[f"{name}.bias"] = rng.normal(0, 0.1, (outputs,))
    batches = {"dense": rng.normal(0, 1, (STEPS, BATCH, DENSE)), "labels": rng.integers(0, 2, (STEPS, BATCH, 1)) * 1.0}
    for name, rows in ROWS.items():
        batches[name] = rng.integers(0, rows, (STEPS, BATCH))
    bags = rng.integers(0, BAG_ROWS, (STEPS, BATCH, BAG_LENGTH))
    lengths = rng.integers(0, BAG_LENGTH + 1, (STEPS, BATCH, 1))  # some are empty
    batches[BAG] = np.where(np.arange(BAG_LENGTH) < lengths, bags, PADDING)
    batches[CUT] = rng.integers(0, CUT_ROWS, (STEPS, CUT_NUMBERS))
    cuts = np.sort(rng.integers(0, CUT_NUMBERS + 1, (STEPS, BATCH)), axis=1)
    cuts[:, 0] = 0
    batches["offsets"] = cuts
    batches["weights"] = rng.uniform(0.5, 1.5, (STEPS, CUT_NUMBERS))
    return tables, dense, batches


def loss_of(tables, dense, batch):
    bottom = torch.relu(batch["dense"] @ dense["bottom.kernel"] + dense["bottom.bias"])
    vectors = [bottom] + [F.embedding(batch[name], tables[name], sparse=True) for name in ROWS]
    vectors.append(F.embedding_bag(batch[BAG], tables[BAG], mode="mean", padding_idx=PADDING, sparse=True))
    vectors.append(
        F.embedding_bag(
            batch[CUT], tables[CUT], batch["offsets"], mode="sum", per_sample_weights=batch["weights"], sparse=True
        )
    )
    pairs = [
        (vectors[i] * vectors[k]).sum(1, keepdim=True) for i in range(len(vectors)) for k in range(i + 1, len(vectors))
    ]
    hidden = torch.relu(torch.cat([bottom, *pairs], 1) @ dense["top.kernel"] + dense["top.bias"])
    logits = hidden @ dense["out.kernel"] + dense["out.bias"]
    return F.binary_cross_entropy_with_logits(logits, batch["labels"])


def main():
    torch.set_num_threads(1)
    tables, dense, batches = problem()
    arrays = {f"initial.{name}": value for name, value in {**tables, **dense}.items()}
    arrays.update({f"batches.{name}": value for name, value in batches.items()})
    for key, (for_tables, for_dense) in OPTIMIZERS.items():
        t = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in tables.items()}
        d = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in dense.items()}
        optimizers = [for_tables(list(t.values())), for_dense(list(d.values()))]
        losses = []
        for step in range(STEPS):
            batch = {name: torch.tensor(value[step]) for name, value in batches.items()}
            loss = loss_of(t, d, batch)
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            losses.append(loss.item())
        arrays[f"{key}.losses"] = np.array(losses)
        for name, value in {**t, **d}.items():
            arrays[f"{key}.final.{name}"] = value.detach().numpy()
    golden.save("dlrm_torch.npz", arrays, __file__, {"torch": torch.__version__}, padding=PADDING)


if __name__ == "__main__":
    main()
