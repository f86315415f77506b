"""Writes recurrent_torch.npz: LSTM and GRU layers and their gradients, by PyTorch in f64. Run: python
make_recurrent_torch.py

Parameters are stored as isochron lays them out: kernels (inputs, gates x units); an LSTM's gates i, f, g, o and one bias,
the sum of PyTorch's two; a GRU's gates z, r, n (PyTorch: r, z, n) and a bias (2, 3 units).
"""

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import golden

ROWS, STEPS, FEATURES, UNITS = 4, 6, 3, 5
LENGTHS = [6, 2, 1, 5]

# name: kind, layers, bidirectional, lengths
CASES = {
    "lstm": ("lstm", 1, False, False),
    "lstm_lengths": ("lstm", 1, False, True),
    "lstm_stack": ("lstm", 2, True, False),
    "lstm_stack_lengths": ("lstm", 2, True, True),
    "gru": ("gru", 1, False, False),
    "gru_lengths": ("gru", 1, False, True),
    "gru_stack": ("gru", 2, True, False),
    "gru_stack_lengths": ("gru", 2, True, True),
}


def in_our_order(kind, array):
    """PyTorch's rows of gates, in our order."""
    if kind == "lstm":
        return array
    r, z, n = np.split(array, 3)
    return np.concatenate([z, r, n])


def parameters_of(kind, layer, value):
    """(our name, array) for every parameter; `value` takes a PyTorch parameter's array out of `layer`."""
    for index in range(layer.num_layers):
        for direction in range(2 if layer.bidirectional else 1):
            suffix = f"l{index}" + ("_reverse" if direction else "")
            w_x, w_h, b_x, b_h = (
                in_our_order(kind, value(getattr(layer, f"{name}_{suffix}")))
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            plain = layer.num_layers == 1 and not layer.bidirectional
            prefix = "" if plain else f"layer_{index}/" + ("backward/" if direction else "forward/")
            yield prefix + "kernel", w_x.T
            yield prefix + "recurrent_kernel", w_h.T
            yield prefix + "bias", (b_x, b_h)


def record_case(arrays, name, rng):
    kind, layers, bidirectional, with_lengths = CASES[name]
    make = torch.nn.LSTM if kind == "lstm" else torch.nn.GRU
    layer = make(FEATURES, UNITS, layers, batch_first=True, bidirectional=bidirectional, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.tensor(rng.uniform(-0.6, 0.6, tuple(parameter.shape))))
    states = layers * (2 if bidirectional else 1)

    def leaf(*shape):
        return torch.tensor(rng.standard_normal(shape), requires_grad=True)

    x = leaf(ROWS, STEPS, FEATURES)
    initial = [leaf(states, ROWS, UNITS) for _ in range(2 if kind == "lstm" else 1)]
    given = tuple(initial) if kind == "lstm" else initial[0]
    if with_lengths:
        packed, final = layer(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False), given)
        y, _ = pad_packed_sequence(packed, batch_first=True, total_length=STEPS)
    else:
        y, final = layer(x, given)
    final = final if kind == "lstm" else (final,)
    results = {"y": y, **dict(zip("hc", final))}
    inputs = {"x": x, **{f"{which}0": tensor for which, tensor in zip("hc", initial)}}
    seeds = {key: rng.standard_normal(tuple(result.shape)) for key, result in results.items()}
    sum((results[key] * torch.tensor(seeds[key])).sum() for key in results).backward()

    put = {key: tensor.detach().numpy() for key, tensor in {**inputs, **results}.items()}
    put.update({f"d{key}": seed for key, seed in seeds.items()})
    put.update({f"d{key}": tensor.grad.numpy() for key, tensor in inputs.items()})
    for key, value in parameters_of(kind, layer, lambda p: p.detach().numpy()):
        put[key] = value if key.endswith("kernel") else (np.add(*value) if kind == "lstm" else np.stack(value))
    for key, value in parameters_of(kind, layer, lambda p: p.grad.numpy()):
        put[f"d{key}"] = value if key.endswith("kernel") else (value[0] if kind == "lstm" else np.stack(value))
    if with_lengths:
        put["lengths"] = np.array(LENGTHS, dtype=np.int64)
    arrays.update({f"{name}.{key}": np.ascontiguousarray(value) for key, value in put.items()})


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(golden.SEED)
    arrays = {}
    for name in CASES:
        record_case(arrays, name, rng)
    attributes = {name: dict(zip(("kind", "layers", "bidirectional", "lengths"), case)) for name, case in CASES.items()}
    golden.save("recurrent_torch.npz", arrays, __file__, {"torch": torch.__version__}, cases=attributes)


if __name__ == "__main__":
    main()
