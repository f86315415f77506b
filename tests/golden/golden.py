"""Shared by the make_*.py scripts of this folder: one seed, and one way to write files of named arrays.

Every file holds a u8 array `meta`: UTF-8 JSON with the script, versions, seed and the hyperparameters used. The files
are numpy.savez archives (stored, never compressed), the same bytes from run to run with the same versions and CPU kind.
"""

import json
import pathlib
import platform

import numpy as np

SEED = 20240229
FOLDER = pathlib.Path(__file__).resolve().parent

# Steps (counted from one) after which an optimizer's parameters are kept.
KEPT_STEPS = (1, 2, 3, 10, 50, 100)


def save(name, arrays, script, versions, **details):
    """Writes FOLDER/name with `arrays` (a dict) and the metadata beside them."""
    meta = {
        "script": pathlib.Path(script).name,
        "seed": SEED,
        "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
        **details,
    }
    for key, value in arrays.items():
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name}: {key} holds a value that is not finite")
    text = json.dumps(meta, sort_keys=True).encode("utf-8")
    path = FOLDER / name
    np.savez(path, **arrays, meta=np.frombuffer(text, dtype=np.uint8))
    print(f"{name}: {len(arrays)} arrays, {path.stat().st_size} bytes")


def save_safetensors(name, tensors, script, versions):
    """Writes FOLDER/name with `tensors` (arrays, or PyTorch's) by the format's own library; the metadata as JSON."""
    from safetensors.numpy import save_file

    tensors = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    for key, value in tensors.items():
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name}: {key} holds a value that is not finite")
    meta = {"script": pathlib.Path(script).name, "seed": SEED, "versions": versions}
    save_file(tensors, FOLDER / name, metadata={"meta": json.dumps(meta, sort_keys=True)})
    print(f"{name}: {len(tensors)} tensors, {(FOLDER / name).stat().st_size} bytes")


def optimizer_problem():
    """Initial parameters and 100 gradients of a (3, 4) kernel and a (5,) bias.

    Each element's gradient keeps one magnitude, from 1e-9 to 10, so that the place of epsilon shows; kernel[0, 0] gets
    a gradient of exactly zero.
    """
    rng = np.random.default_rng(SEED)
    initial = {"kernel": rng.standard_normal((3, 4)), "bias": rng.standard_normal(5)}
    gradients = {}
    for name, value in initial.items():
        magnitude = np.logspace(-9, 1, value.size).reshape(value.shape)
        gradients[name] = magnitude * (0.3 + rng.standard_normal((100, *value.shape)))
    gradients["kernel"][:, 0, 0] = 0.0
    return initial, gradients


MLP_LAYERS = (("dense1", (16, 32)), ("dense2", (32, 16)), ("dense3", (16, 4)))
CNN_LAYERS = (("conv1", (3, 3, 1, 4)), ("conv2", (3, 3, 4, 8)), ("dense1", (32, 10)))
TRAINING_STEPS = 50


def training_problem(model):
    """Weights by name (`dense1.kernel`, ...), four batches of 8: x (4, 8, ...), labels (4, 8), for "mlp" or "cnn"."""
    rng = np.random.default_rng([SEED, len(model), ord(model[0])])
    layers, features, classes = {"mlp": (MLP_LAYERS, (16,), 4), "cnn": (CNN_LAYERS, (8, 8, 1), 10)}[model]
    weights = {}
    for name, shape in layers:
        fan_in = int(np.prod(shape[:-1]))
        weights[f"{name}.kernel"] = rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)
        weights[f"{name}.bias"] = 0.1 * rng.standard_normal(shape[-1])
    x = rng.standard_normal((4, 8, *features))
    labels = rng.integers(0, classes, (4, 8)).astype(np.int64)
    return weights, x, labels
