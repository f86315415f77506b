"""Writes networks_torch.npz: losses of steps with several networks, by PyTorch. Run: python make_networks_torch.py

A GAN, whose generator is trained through the discriminator just updated; a DQN, whose target network takes over the
online one at times (hard) or a little at each step (soft); a model with three heads, one of which no loss uses.
"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

STEPS, BATCHES, ROWS = 50, 4, 8
GAMMA, HARD_EVERY, TAU = 0.9, 7, 0.05
DECAY = 0.1

# Dense layers by name: (inputs, units).
NETWORKS = {
    "gan": {"g1": (3, 8), "g2": (8, 2), "d1": (2, 8), "d2": (8, 1)},
    "dqn": {"q1": (4, 16), "q2": (16, 3)},
    "heads": {"body": (6, 12), "classes": (12, 3), "number": (12, 1), "unused": (12, 2)},
}


def problem(name):
    """Initial weights, and what the batches hold: arrays (BATCHES, ROWS, ...)."""
    rng = np.random.default_rng([golden.SEED, *name.encode()])
    weights = {}
    for layer, (inputs, units) in NETWORKS[name].items():
        weights[f"{layer}.kernel"] = rng.standard_normal((inputs, units)) / np.sqrt(inputs)
        weights[f"{layer}.bias"] = 0.1 * rng.standard_normal(units)
    lead = (BATCHES, ROWS)
    if name == "gan":
        data = {"real": 0.5 * rng.standard_normal((*lead, 2)) + [1.0, -1.0], "noise": rng.standard_normal((*lead, 3))}
    elif name == "dqn":
        data = {
            "state": rng.standard_normal((*lead, 4)),
            "next": rng.standard_normal((*lead, 4)),
            "reward": rng.standard_normal(lead),
            "done": (rng.random(lead) < 0.25).astype(np.float64),
            "action": rng.integers(0, 3, lead).astype(np.int64),
        }
    else:
        data = {
            "x": rng.standard_normal((*lead, 6)),
            "labels": rng.integers(0, 3, lead).astype(np.int64),
            "number": rng.standard_normal((*lead, 1)),
        }
    return weights, data


def dense(p, layer, x):
    return x @ p[f"{layer}.kernel"] + p[f"{layer}.bias"]


def of(p, prefix):
    return [value for name, value in p.items() if name.startswith(prefix)]


def gan_step(p, batch, state):
    if not state:
        state["d"] = torch.optim.Adam(of(p, "d"), lr=0.01)
        state["g"] = torch.optim.Adam(of(p, "g"), lr=0.01)

    def judge(x):
        return dense(p, "d2", F.relu(dense(p, "d1", x)))

    made = dense(p, "g2", torch.tanh(dense(p, "g1", batch["noise"])))
    real, fake = judge(batch["real"]), judge(made.detach())
    bce = F.binary_cross_entropy_with_logits
    d_loss = bce(real, torch.ones_like(real)) + bce(fake, torch.zeros_like(fake))
    state["d"].zero_grad()
    d_loss.backward()
    state["d"].step()
    through = judge(made)
    g_loss = bce(through, torch.ones_like(through))
    state["g"].zero_grad()
    g_loss.backward()
    state["g"].step()
    return [d_loss, g_loss]


def dqn_step(p, batch, state, hard):
    if not state:
        state["optimizer"] = torch.optim.Adam(of(p, "q"), lr=0.01)
        state["target"] = {name: value.detach().clone() for name, value in p.items()}
        state["steps"] = 0

    def values(q, x):
        return dense(q, "q2", F.relu(dense(q, "q1", x)))

    with torch.no_grad():
        best = values(state["target"], batch["next"]).max(dim=1).values
        wanted = batch["reward"] + GAMMA * (1 - batch["done"]) * best
    taken = values(p, batch["state"]).gather(1, batch["action"][:, None])[:, 0]
    loss = F.mse_loss(taken, wanted)
    state["optimizer"].zero_grad()
    loss.backward()
    state["optimizer"].step()
    state["steps"] += 1
    with torch.no_grad():
        for name, value in p.items():
            if not hard:
                state["target"][name].lerp_(value, TAU)
            elif state["steps"] % HARD_EVERY == 0:
                state["target"][name].copy_(value)
    return [loss]


def heads_step(p, batch, state):
    if not state:
        state["optimizer"] = torch.optim.AdamW(list(p.values()), lr=0.01, weight_decay=DECAY)
    shared = torch.tanh(dense(p, "body", batch["x"]))
    loss = F.cross_entropy(dense(p, "classes", shared), batch["labels"]) + 0.5 * F.mse_loss(
        dense(p, "number", shared), batch["number"]
    )
    state["optimizer"].zero_grad()
    loss.backward()
    state["optimizer"].step()
    return [loss]


STEP_OF = {
    "gan": gan_step,
    "dqn_hard": lambda p, batch, state: dqn_step(p, batch, state, True),
    "dqn_soft": lambda p, batch, state: dqn_step(p, batch, state, False),
    "heads": heads_step,
}


def train(case, weights, data, dtype):
    """Losses (STEPS, losses a step), each before the update that follows it, and the final weights."""
    p = {name: torch.nn.Parameter(torch.tensor(value, dtype=dtype)) for name, value in weights.items()}
    state, losses = {}, []
    for step in range(STEPS):
        batch = {}
        for name, value in data.items():
            tensor = torch.tensor(value[step % BATCHES])
            batch[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
        losses.append([loss.item() for loss in STEP_OF[case](p, batch, state)])
    return np.array(losses), {name: value.detach().numpy() for name, value in p.items()}


def main():
    torch.set_num_threads(1)
    arrays = {}
    for network in NETWORKS:
        weights, data = problem(network)
        for name, value in weights.items():
            arrays[f"{network}.initial.{name}"] = value
        for name, value in data.items():
            arrays[f"{network}.{name}"] = value
        for case in STEP_OF:
            if not case.startswith(network):
                continue
            arrays[f"{case}.f64.losses"], final = train(case, weights, data, torch.float64)
            arrays[f"{case}.f32.losses"] = train(case, weights, data, torch.float32)[0]
            for name, value in final.items():
                arrays[f"{case}.final.{name}"] = value
    details = {"gamma": GAMMA, "hard_every": HARD_EVERY, "tau": TAU, "learning_rate": 0.01, "weight_decay": DECAY}
    golden.save("networks_torch.npz", arrays, __file__, {"torch": torch.__version__}, **details)


if __name__ == "__main__":
    main()
