"""Writes ops_torch.npz: values and gradients of ops, by PyTorch in f64. Run: python make_ops_torch.py

Images are stored NHWC and convolution kernels HWIO with I = C / groups. "same" padding is that of TensorFlow and Keras:
ceil(size / stride) outputs, and of an odd total the smaller half goes before. It is applied by hand here, since PyTorch
has no such mode with strides.
"""

import numpy as np
import torch
import torch.nn.functional as F

import golden

# name: x (N, H, W, C), kernel (KH, KW, C / groups, O), padding, stride, dilation, groups
CONVOLUTIONS = {
    "valid": ((2, 7, 6, 3), (3, 3, 3, 5), "valid", (1, 1), (1, 1), 1),
    "same": ((2, 7, 6, 3), (3, 3, 3, 5), "same", (1, 1), (1, 1), 1),
    "same_even_kernel": ((2, 7, 6, 3), (2, 4, 3, 5), "same", (1, 1), (1, 1), 1),
    "valid_stride2": ((2, 8, 7, 3), (3, 3, 3, 5), "valid", (2, 2), (1, 1), 1),
    "same_stride2": ((2, 8, 7, 3), (3, 3, 3, 5), "same", (2, 2), (1, 1), 1),
    "valid_dilation2": ((2, 8, 7, 3), (3, 3, 3, 5), "valid", (1, 1), (2, 2), 1),
    "same_dilation2": ((2, 8, 7, 3), (3, 3, 3, 5), "same", (1, 1), (2, 2), 1),
    "same_groups2": ((2, 6, 6, 4), (3, 3, 2, 6), "same", (1, 1), (1, 1), 2),
    "depthwise_stride2": ((2, 7, 7, 4), (3, 3, 1, 8), "same", (2, 2), (1, 1), 4),
    "pointwise": ((2, 5, 4, 6), (1, 1, 6, 7), "valid", (1, 1), (1, 1), 1),
    "oblong": ((2, 9, 6, 2), (3, 2, 2, 4), "same", (3, 1), (1, 2), 1),
    "one_channel": ((3, 9, 9, 1), (5, 5, 1, 8), "valid", (1, 1), (1, 1), 1),
}

# name: x (N, H, W, C), window, padding, stride. Average pooling divides by the elements inside the image.
POOLS = {
    "valid2": ((2, 6, 8, 3), (2, 2), "valid", (2, 2)),
    "valid2_ragged": ((2, 7, 5, 3), (2, 2), "valid", (2, 2)),
    "same3_stride2": ((2, 8, 7, 3), (3, 3), "same", (2, 2)),
    "valid3_stride1": ((2, 6, 5, 2), (3, 3), "valid", (1, 1)),
    "oblong": ((2, 7, 6, 2), (3, 2), "same", (2, 3)),
}

UNARY = {
    "erf": torch.erf,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "softplus": lambda x: F.softplus(x, threshold=1000.0),
    "elu": F.elu,
    "selu": F.selu,
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, negative_slope=0.01),
}


def same_padding(size, window, stride, dilation):
    """(before, after) for one axis."""
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def pad_nchw(x, window, padding, stride, dilation, value):
    if padding == "valid":
        return x
    top, bottom = same_padding(x.shape[2], window[0], stride[0], dilation[0])
    left, right = same_padding(x.shape[3], window[1], stride[1], dilation[1])
    return F.pad(x, (left, right, top, bottom), value=value)


def convolution(x, kernel, bias, padding, stride, dilation, groups):
    x = pad_nchw(x.permute(0, 3, 1, 2), kernel.shape[:2], padding, stride, dilation, 0.0)
    y = F.conv2d(x, kernel.permute(3, 2, 0, 1), bias, stride=stride, dilation=dilation, groups=groups)
    return y.permute(0, 2, 3, 1)


def max_pool(x, window, padding, stride):
    x = pad_nchw(x.permute(0, 3, 1, 2), window, padding, stride, (1, 1), -torch.inf)
    return F.max_pool2d(x, window, stride).permute(0, 2, 3, 1)


def average_pool(x, window, padding, stride):
    x = x.permute(0, 3, 1, 2)
    inside = pad_nchw(torch.ones_like(x), window, padding, stride, (1, 1), 0.0)
    sums = F.avg_pool2d(pad_nchw(x, window, padding, stride, (1, 1), 0.0), window, stride, divisor_override=1)
    return (sums / F.avg_pool2d(inside, window, stride, divisor_override=1)).permute(0, 2, 3, 1)


class Recorder:
    """Collects named arrays, and values with the gradients of sum(y * dy) for a random dy."""

    def __init__(self):
        self.arrays = {}
        self.rng = np.random.default_rng(golden.SEED)

    def normal(self, *shape):
        return self.rng.standard_normal(shape)

    def put(self, prefix, **values):
        for name, value in values.items():
            value = value.detach().numpy() if isinstance(value, torch.Tensor) else value
            self.arrays[f"{prefix}.{name}"] = np.array(value, order="C")

    def differentiate(self, prefix, function, inputs, dy=None):
        """Records y, and d<name> for each of function's inputs; dy as well, unless it is given (shared, or one for a scalar)."""
        tensors = {name: torch.tensor(value, requires_grad=True) for name, value in inputs.items()}
        y = function(*tensors.values())
        if dy is None:
            dy = self.normal(*y.shape)
            self.put(prefix, dy=dy)
        y.backward(torch.tensor(dy))
        self.put(prefix, y=y, **{f"d{name}": tensor.grad for name, tensor in tensors.items()})


def record_convolutions(record):
    for name, (x_shape, kernel_shape, *attributes) in CONVOLUTIONS.items():
        inputs = {
            "x": record.normal(*x_shape),
            "kernel": record.normal(*kernel_shape),
            "bias": record.normal(kernel_shape[-1]),
        }
        record.put(f"conv2d.{name}", **inputs)
        record.differentiate(f"conv2d.{name}", lambda x, kernel, bias: convolution(x, kernel, bias, *attributes), inputs)


def record_pools(record):
    for name, (x_shape, *attributes) in POOLS.items():
        for kind, pool in (("max_pool", max_pool), ("average_pool", average_pool)):
            inputs = {"x": record.normal(*x_shape)}
            record.put(f"{kind}.{name}", **inputs)
            record.differentiate(f"{kind}.{name}", lambda x: pool(x, *attributes), inputs)


def record_unary(record):
    """x runs over both tails and close to zero, but not zero, where some have a kink."""
    extremes = [-100.0, -30.0, -1e-3, -1e-9, 1e-9, 1e-3, 30.0, 100.0]
    x = np.concatenate([np.linspace(-6.0, 6.0, 48), extremes])
    dy = record.normal(*x.shape)
    record.put("unary", x=x, dy=dy)
    for name, function in UNARY.items():
        record.differentiate(f"unary.{name}", function, {"x": x}, dy)


def record_softmax(record):
    x = 3.0 * record.normal(3, 5, 4)
    x[0] += 1000.0  # overflows unless the maximum is taken off first
    for axis in (1, 2):
        prefix = f"softmax.axis{axis}"
        dy = record.normal(*x.shape)
        record.put(prefix, x=x, dy=dy)
        record.differentiate(prefix, lambda x: F.softmax(x, axis), {"x": x}, dy)
        record.put(f"log_softmax.axis{axis}", x=x, dy=dy)
        record.differentiate(f"log_softmax.axis{axis}", lambda x: F.log_softmax(x, axis), {"x": x}, dy)


def record_cross_entropy(record):
    logits = 3.0 * record.normal(6, 5)
    logits[0] += 1000.0
    labels = record.rng.integers(0, 5, 6).astype(np.int64)
    labels[:5] = np.arange(5)
    targets = record.rng.dirichlet(np.ones(5), 6)
    probabilities = record.rng.dirichlet(np.ones(5), 6)
    label_tensor, target_tensor = torch.tensor(labels), torch.tensor(targets)
    record.put("cross_entropy", logits=logits, labels=labels, targets=targets, probabilities=probabilities)
    losses = {
        "sparse_logits": lambda logits: F.cross_entropy(logits, label_tensor, reduction="none"),
        "dense_logits": lambda logits: F.cross_entropy(logits, target_tensor, reduction="none"),
        "sparse_probabilities": lambda probabilities: F.nll_loss(probabilities.log(), label_tensor, reduction="none"),
        "dense_probabilities": lambda probabilities: -(target_tensor * probabilities.log()).sum(1),
    }
    for name, loss in losses.items():
        inputs = {"logits": logits} if name.endswith("logits") else {"probabilities": probabilities}
        record.differentiate(f"cross_entropy.{name}", loss, inputs)
        mean = lambda x: loss(x).mean()
        record.differentiate(f"cross_entropy.{name}_mean", mean, inputs, np.float64(1.0))


def main():
    torch.set_num_threads(1)
    record = Recorder()
    record_convolutions(record)
    record_pools(record)
    record_unary(record)
    record_softmax(record)
    record_cross_entropy(record)
    assert all(array.dtype in (np.float64, np.int64) for array in record.arrays.values())
    attributes = {
        "conv2d": {n: dict(zip(("padding", "stride", "dilation", "groups"), c[2:])) for n, c in CONVOLUTIONS.items()},
        "pool": {n: dict(zip(("window", "padding", "stride"), p[1:])) for n, p in POOLS.items()},
    }
    golden.save("ops_torch.npz", record.arrays, __file__, {"torch": torch.__version__}, attributes=attributes)


if __name__ == "__main__":
    main()
