"""Writes convolution_torch.npz: convolution, its transpose and pooling along one, two and three axes, with gradients, by
PyTorch in f64. Run: python make_convolution_torch.py

Images are stored (N, spatial..., C), kernels (spatial..., C / groups, O), those of transposed convolutions (spatial...,
O / groups, C). Padding is explicit, {before, after} of each axis in turn, unless a case says otherwise.
"""

import torch
import torch.nn.functional as F

import golden
from make_ops_torch import Recorder, same_padding

# name: x, kernel, padding, stride, dilation, groups
CONVOLUTIONS = {
    "conv1d.plain": ((2, 9, 3), (3, 3, 5), (0, 0), (1,), (1,), 1),
    "conv1d.causal": ((2, 9, 3), (3, 3, 4), "causal", (1,), (2,), 1),
    "conv1d.same_stride2": ((2, 10, 4), (5, 2, 6), "same", (2,), (1,), 2),
    "conv1d.depthwise": ((2, 11, 5), (4, 1, 10), "same", (1,), (1,), 5),
    "conv2d.depthwise": ((2, 6, 7, 18), (3, 3, 1, 18), (1, 1, 1, 1), (1, 1), (1, 1), 18),
    "conv2d.depthwise_multiplied": ((2, 7, 6, 3), (3, 2, 1, 9), "same", (2, 1), (1, 2), 3),
    "conv3d.plain": ((2, 4, 5, 4, 2), (2, 3, 2, 2, 3), (0, 0, 0, 0, 0, 0), (1, 1, 1), (1, 1, 1), 1),
    "conv3d.padded": ((1, 5, 4, 6, 2), (3, 3, 3, 2, 4), (1, 0, 0, 2, 1, 1), (2, 1, 2), (1, 1, 2), 1),
    "conv3d.same_groups2": ((2, 5, 4, 3, 4), (3, 2, 1, 2, 6), "same", (2, 1, 1), (1, 1, 1), 2),
    "conv3d.depthwise": ((1, 4, 5, 3, 6), (3, 3, 2, 1, 6), "same", (1, 2, 1), (1, 1, 1), 6),
}

# name: x, kernel, padding (the same on both sides), stride, dilation, groups, output_padding
TRANSPOSED = {
    "conv1d_transpose.plain": ((2, 5, 3), (4, 5, 3), (0,), (1,), (1,), 1, (0,)),
    "conv1d_transpose.stride3": ((2, 5, 4), (5, 3, 4), (1,), (3,), (2,), 2, (2,)),
    "conv2d_transpose.plain": ((2, 4, 3, 2), (3, 2, 5, 2), (0, 0), (1, 1), (1, 1), 1, (0, 0)),
    "conv2d_transpose.stride2": ((2, 4, 3, 3), (3, 3, 2, 3), (1, 1), (2, 2), (1, 1), 1, (1, 0)),
    "conv2d_transpose.groups": ((1, 4, 5, 4), (2, 3, 3, 4), (0, 1), (2, 1), (1, 2), 2, (0, 0)),
    "conv2d_transpose.depthwise": ((1, 4, 5, 4), (3, 3, 1, 4), (1, 1), (2, 2), (1, 1), 4, (1, 1)),
    "conv3d_transpose.stride2": ((1, 3, 2, 3, 2), (3, 2, 3, 3, 2), (1, 0, 1), (2, 1, 2), (1, 1, 1), 1, (1, 0, 0)),
}

# name: x, window, stride, padding (the same on both sides)
POOLS = {
    "pool1d": ((2, 9, 3), (3,), (2,), (1,)),
    "pool2d": ((2, 7, 6, 3), (3, 2), (2, 2), (1, 1)),
    "pool3d": ((2, 4, 5, 6, 3), (2, 3, 2), (2, 1, 2), (1, 1, 0)),
}


def axes(x):
    return x.dim() - 2


def channels_first(x):
    return x.movedim(-1, 1)


def channels_last(x):
    return x.movedim(1, -1)


def kernel_first(kernel):
    """(spatial..., I, O) to (O, I, spatial...)"""
    return kernel.permute(-1, -2, *range(kernel.dim() - 2))


def pairs_of(padding, extents, window, stride, dilation):
    if padding == "causal":
        return ((window[0] - 1) * dilation[0], 0)
    if padding == "same":
        return sum((same_padding(*numbers) for numbers in zip(extents, window, stride, dilation)), ())
    return padding


def convolution(x, kernel, bias, padding, stride, dilation, groups):
    pairs = pairs_of(padding, x.shape[1:-1], kernel.shape[:-2], stride, dilation)
    last_axis_first = [n for i in reversed(range(axes(x))) for n in pairs[2 * i : 2 * i + 2]]
    function = (F.conv1d, F.conv2d, F.conv3d)[axes(x) - 1]
    x = F.pad(channels_first(x), last_axis_first)
    return channels_last(function(x, kernel_first(kernel), bias, stride=stride, dilation=dilation, groups=groups))


def transposed(x, kernel, bias, padding, stride, dilation, groups, output_padding):
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes(x) - 1]
    y = function(channels_first(x), kernel_first(kernel), bias, stride, padding, output_padding, groups, dilation)
    return channels_last(y)


def max_pool(x, window, stride, padding):
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[axes(x) - 1]
    return channels_last(function(channels_first(x), window, stride, padding))


def average_pool(x, window, stride, padding, count_padding):
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[axes(x) - 1]
    return channels_last(function(channels_first(x), window, stride, padding, count_include_pad=count_padding))


def record_kernels(record, cases, function, outputs):
    for name, (x_shape, kernel_shape, *attributes) in cases.items():
        inputs = {
            "x": record.normal(*x_shape),
            "kernel": record.normal(*kernel_shape),
            "bias": record.normal(outputs(kernel_shape, *attributes)),
        }
        record.put(name, **inputs)
        record.differentiate(name, lambda x, kernel, bias: function(x, kernel, bias, *attributes), inputs)


def record_pools(record):
    for name, (x_shape, *attributes) in POOLS.items():
        pools = {
            "max": lambda x: max_pool(x, *attributes),
            "average": lambda x: average_pool(x, *attributes, False),
            "average_padded": lambda x: average_pool(x, *attributes, True),
        }
        for kind, pool in pools.items():
            inputs = {"x": record.normal(*x_shape)}
            record.put(f"{name}.{kind}", **inputs)
            record.differentiate(f"{name}.{kind}", pool, inputs)


def main():
    torch.set_num_threads(1)
    record = Recorder()
    record_kernels(record, CONVOLUTIONS, convolution, lambda kernel, *_: kernel[-1])
    record_kernels(record, TRANSPOSED, transposed, lambda kernel, *attributes: kernel[-2] * attributes[3])
    record_pools(record)
    names = ("x", "kernel", "padding", "stride", "dilation", "groups", "output_padding")
    attributes = {n: dict(zip(names, c)) for n, c in {**CONVOLUTIONS, **TRANSPOSED}.items()}
    attributes |= {n: dict(zip(("x", "window", "stride", "padding"), p)) for n, p in POOLS.items()}
    versions = {"torch": torch.__version__}
    golden.save("convolution_torch.npz", record.arrays, __file__, versions, attributes=attributes)


if __name__ == "__main__":
    main()
