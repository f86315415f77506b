"""Writes training_torch.npz: losses of an MLP and a CNN trained by PyTorch's defaults. Run: python make_training_torch.py

The arrays are in the layouts of training_keras.npz: images NHWC, convolution kernels HWIO, dense kernels (in, out), and
flattening takes NHWC order; the transposes to PyTorch's own layouts are part of the function that is differentiated.
"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

OPTIMIZERS = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}


def convolution(x, kernel, bias):
    """x: (N, H, W, C), kernel: (KH, KW, C, O) -> (N, H - KH + 1, W - KW + 1, O)."""
    y = F.conv2d(x.permute(0, 3, 1, 2), kernel.permute(3, 2, 0, 1), bias)
    return y.permute(0, 2, 3, 1)


def logits(model, p, x):
    if model == "mlp":
        x = F.relu(x @ p["dense1.kernel"] + p["dense1.bias"])
        x = F.relu(x @ p["dense2.kernel"] + p["dense2.bias"])
        return x @ p["dense3.kernel"] + p["dense3.bias"]
    x = F.relu(convolution(x, p["conv1.kernel"], p["conv1.bias"]))
    x = F.relu(convolution(x, p["conv2.kernel"], p["conv2.bias"]))
    x = F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
    return x.flatten(1) @ p["dense1.kernel"] + p["dense1.bias"]


def train(model, make_optimizer, weights, x, labels, dtype):
    """Returns losses (50,) taken before each update, the first step's gradients, the final weights and the optimizer."""
    parameters = {name: torch.nn.Parameter(torch.tensor(value, dtype=dtype)) for name, value in weights.items()}
    optimizer = make_optimizer(list(parameters.values()))
    losses, first = [], None
    for step in range(golden.TRAINING_STEPS):
        batch = step % len(x)
        optimizer.zero_grad()
        loss = F.cross_entropy(
            logits(model, parameters, torch.tensor(x[batch], dtype=dtype)), torch.tensor(labels[batch])
        )
        loss.backward()
        if first is None:
            first = {name: parameter.grad.numpy().copy() for name, parameter in parameters.items()}
        optimizer.step()
        losses.append(loss.detach().numpy())
    final = {name: parameter.detach().numpy() for name, parameter in parameters.items()}
    return np.array(losses), first, final, optimizer


def main():
    torch.set_num_threads(1)
    arrays, hyperparameters = {}, {}
    for model in ("mlp", "cnn"):
        weights, x, labels = golden.training_problem(model)
        arrays[f"{model}.x"] = x
        arrays[f"{model}.labels"] = labels
        for name, value in weights.items():
            arrays[f"{model}.initial.{name}"] = value
        for dtype, short in ((torch.float64, "f64"), (torch.float32, "f32")):
            for key, make_optimizer in OPTIMIZERS.items():
                losses, first, final, optimizer = train(model, make_optimizer, weights, x, labels, dtype)
                arrays[f"{model}.{key}.{short}.losses"] = losses
                if short == "f32":
                    continue
                for name in weights:
                    arrays[f"{model}.gradients.{name}"] = first[name]
                    arrays[f"{model}.{key}.final.{name}"] = final[name]
                wanted = "lr betas eps alpha momentum centered weight_decay".split()
                hyperparameters[key] = {k: optimizer.defaults[k] for k in wanted if k in optimizer.defaults}
    golden.save("training_torch.npz", arrays, __file__, {"torch": torch.__version__}, hyperparameters=hyperparameters)


if __name__ == "__main__":
    main()
