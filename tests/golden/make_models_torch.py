"""Writes layers_torch.safetensors and model_NAME_torch.safetensors: what PyTorch's layers and models compute from stored
weights, their gradients, and for models the losses of 50 train steps. Run: python make_models_torch.py

    python make_models_torch.py --check FOLDER   reads the files CASE.safetensors that the tests wrote there and demands
                                                 that PyTorch's modules, loaded from them strictly, compute the same

Modules have PyTorch's own names and layouts, which is what the tests import. Inputs and results are laid out as isochron
lays them out: channels last.
"""

import pathlib
import sys

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

import golden


# Modules that PyTorch has only in parts. Their children are called as isochron's are.


class GroupedAttention(nn.Module):
    """nn.MultiheadAttention of itself, with fewer heads of keys than of queries."""

    def __init__(self, width, heads, key_heads):
        super().__init__()
        self.heads, self.key_heads, self.head_width = heads, key_heads, width // heads
        rows = self.head_width * (heads + 2 * key_heads)
        self.in_proj_weight = nn.Parameter(torch.empty(rows, width))
        self.in_proj_bias = nn.Parameter(torch.empty(rows))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.key_heads, self.key_heads], dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


def causal_mask(queries, keys):
    """True where a query sees a key, the last query seeing all."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def attend(module, x, memory=None, key_mask=None, causal=False):
    """nn.MultiheadAttention, whose masks are true where a key is hidden."""
    memory = x if memory is None else memory
    hidden = None if key_mask is None else ~key_mask
    unseen = ~causal_mask(x.shape[1], memory.shape[1]) if causal else None
    return module(x, memory, memory, key_padding_mask=hidden, attn_mask=unseen, need_weights=False)[0]


class CausalConv(nn.Conv1d):
    def forward(self, x):  # (N, C, T)
        return super().forward(F.pad(x, ((self.kernel_size[0] - 1) * self.dilation[0], 0)))


class TemporalBlock(nn.Module):
    def __init__(self, inputs, filters, window, dilation):
        super().__init__()
        self.first = CausalConv(inputs, filters, window, dilation=dilation)
        self.second = CausalConv(filters, filters, window, dilation=dilation)
        self.shortcut = nn.Conv1d(inputs, filters, 1) if inputs != filters else None

    def forward(self, x):
        y = self.second(self.first(x).relu()).relu()
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class TemporalForecaster(nn.Module):
    def __init__(self, inputs, filters, window, blocks):
        super().__init__()
        for i in range(blocks):
            self.add_module(f"block_{i}", TemporalBlock(filters if i else inputs, filters, window, 2**i))
        self.out = nn.Linear(filters, 1)
        self.blocks = blocks

    def forward(self, x):
        x = x.mT
        for i in range(self.blocks):
            x = getattr(self, f"block_{i}")(x)
        return self.out(x[:, :, -1])


class Forecaster(nn.Sequential):
    """A recurrent layer and a dense one over its last state."""

    def forward(self, x):
        state = self[0](x)[1]
        return self[1]((state[0] if isinstance(state, tuple) else state)[-1])


class NormalizedConv(nn.Module):
    def __init__(self, inputs, filters, window, stride):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, filters, window, stride, (window - 1) // 2, bias=False)
        self.norm = nn.BatchNorm2d(filters)

    def forward(self, x):
        return self.norm(self.convolution(x))


class ResidualBlock(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = 4 * width if bottleneck else width
        path = [(width, 1, 1), (width, 3, stride), (outputs, 1, 1)] if bottleneck else [(width, 3, stride), (width, 3, 1)]
        channels = inputs
        for i, (filters, window, step) in enumerate(path):
            self.add_module(f"path_{i}", NormalizedConv(channels, filters, window, step))
            channels = filters
        self.shortcut = NormalizedConv(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else None
        self.length, self.outputs = len(path), outputs

    def forward(self, x):
        y = x
        for i in range(self.length):
            y = getattr(self, f"path_{i}")(y)
            y = y.relu() if i + 1 < self.length else y
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, widths, bottleneck, small_images, classes):
        super().__init__()
        self.small_images = small_images
        self.stem = NormalizedConv(3, widths[0], 3 if small_images else 7, 1 if small_images else 2)
        channels, self.count = widths[0], 0
        for stage, (count, width) in enumerate(zip(blocks, widths)):
            for i in range(count):
                block = ResidualBlock(channels, width, 2 if stage and not i else 1, bottleneck)
                self.add_module(f"block_{self.count}", block)
                channels, self.count = block.outputs, self.count + 1
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.stem(x).relu()
        x = x if self.small_images else F.max_pool2d(x, 3, 2, 1)
        for i in range(self.count):
            x = getattr(self, f"block_{i}")(x)
        return self.classifier(x.mean((2, 3)))


class TwoConvolutions(nn.Module):
    """Two 3x3 convolutions, each with group normalisation and silu."""

    def __init__(self, inputs, filters, groups):
        super().__init__()
        self.first = nn.Conv2d(inputs, filters, 3, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(groups, filters)
        self.second = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(groups, filters)

    def forward(self, x):
        x = F.silu(self.first_norm(self.first(x)))
        return F.silu(self.second_norm(self.second(x)))


class UpBlock(nn.Module):
    """Twice as large, beside what the way down had at this size."""

    def __init__(self, inputs, filters, groups):
        super().__init__()
        self.larger = nn.ConvTranspose2d(inputs, filters, 2, stride=2)
        self.convolutions = TwoConvolutions(2 * filters, filters, groups)

    def forward(self, x, skip):
        return self.convolutions(torch.cat([skip, self.larger(x)], 1))


class UNet(nn.Module):
    def __init__(self, inputs, widths, groups, classes):
        super().__init__()
        channels = [inputs, *widths]
        self.down = nn.ModuleList(TwoConvolutions(a, b, groups) for a, b in zip(channels, widths[:-1]))
        self.middle = TwoConvolutions(widths[-2], widths[-1], groups)
        self.up = nn.ModuleList(UpBlock(b, a, groups) for a, b in zip(widths[-2::-1], widths[:0:-1]))
        self.out = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            skips.append(block(x))
            x = F.max_pool2d(skips[-1], 2)
        x = self.middle(x)
        for block, skip in zip(self.up, reversed(skips)):
            x = block(x, skip)
        return self.out(x)


class GptBlock(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=bias)
        self.attention = nn.MultiheadAttention(width, heads, bias=bias, batch_first=True)
        self.dense_norm = nn.LayerNorm(width, bias=bias)
        self.add_module("in", nn.Linear(width, 4 * width, bias=bias))
        self.out = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        x = x + attend(self.attention, self.attention_norm(x), causal=True)
        return x + self.out(F.gelu(getattr(self, "in")(self.dense_norm(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, width, bias):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.empty(context, width))
        for i in range(layers):
            self.add_module(f"block_{i}", GptBlock(width, heads, bias))
        self.norm = nn.LayerNorm(width, bias=bias)
        self.layers = layers

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for i in range(self.layers):
            x = getattr(self, f"block_{i}")(x)
        return F.linear(self.norm(x), self.tokens.weight)


# Layouts.


def channels_first(x):
    return x.movedim(-1, 1)


def channels_last(x):
    return x.movedim(1, -1)


def images(module, x):
    return channels_last(module(channels_first(x)))


def whole(module, x):
    return module(x)


def classes(module, x):
    return module(channels_first(x))


def sequence(module, x):
    return module(x)[0]


def attention_function(q, k, v, key_mask=None, causal=False):
    mask = causal_mask(q.shape[1], k.shape[1]) if causal else torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    mask = mask[None, None] if key_mask is None else mask & key_mask[:, None, None, :]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True).transpose(1, 2)


def masked(call, **options):
    """`call` whose last input is the mask of keys."""
    return lambda module, *inputs: call(module, *inputs[:-1], key_mask=inputs[-1], **options)


def tokens(*shape, below):
    return lambda rng: rng.integers(0, below, shape)


def key_mask(*lengths, of):
    return lambda rng: np.arange(of) < np.array(lengths)[:, None]


def attention_module(**options):
    return lambda: nn.MultiheadAttention(8, 2, batch_first=True, **options)


def encoder_layer(**options):
    return lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, **options)


def decoder_layer(**options):
    return lambda: nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, batch_first=True, **options)


def encode(module, x, seen):
    return module(x, src_key_padding_mask=~seen)


def decode(module, x, memory, seen):
    future = ~causal_mask(x.shape[1], x.shape[1])
    return module(x, memory, tgt_mask=future, memory_key_padding_mask=~seen)


# name: module, call, inputs (a shape, or a function of the random numbers)
LAYERS = {
    "dense": (lambda: nn.Linear(4, 3), whole, [(2, 5, 4)]),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, dilation=2, groups=2), images, [(2, 11, 4)]),
    "conv3d": (lambda: nn.Conv3d(2, 3, (2, 3, 2)), images, [(2, 4, 5, 3, 2)]),
    "depthwise_conv2d": (lambda: nn.Conv2d(3, 6, 3, groups=3), images, [(2, 5, 6, 3)]),
    "conv1d_transpose": (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), images, [(2, 5, 3)]),
    "conv2d_transpose": (lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=2, groups=2), images, [(2, 4, 3, 4)]),
    "conv3d_transpose": (lambda: nn.ConvTranspose3d(2, 3, 2, bias=False), images, [(1, 3, 2, 4, 2)]),
    "batch_norm": (lambda: nn.BatchNorm1d(5), whole, [(7, 5)]),
    "batch_norm_sequence": (lambda: nn.BatchNorm1d(3, momentum=0.3), images, [(4, 6, 3)]),
    "batch_norm_images": (lambda: nn.BatchNorm2d(3, eps=1e-3), images, [(3, 4, 5, 3)]),
    "batch_norm_inference": (lambda: nn.BatchNorm2d(3).eval(), images, [(3, 4, 5, 3)]),
    "layer_norm": (lambda: nn.LayerNorm(6), whole, [(3, 4, 6)]),
    "layer_norm_gain": (lambda: nn.LayerNorm(6, eps=1e-3, bias=False), whole, [(5, 6)]),
    "rms_norm": (lambda: nn.RMSNorm(6, eps=1e-5), whole, [(3, 4, 6)]),
    "group_norm": (lambda: nn.GroupNorm(2, 6), images, [(2, 4, 3, 6)]),
    "group_norm_instance": (lambda: nn.GroupNorm(4, 4), images, [(2, 5, 4)]),
    "embedding": (lambda: nn.Embedding(5, 3), whole, [tokens(4, 6, below=5)]),
    "lstm": (lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), sequence, [(2, 5, 3)]),
    "gru": (lambda: nn.GRU(3, 4, 2, batch_first=True, bidirectional=True), sequence, [(2, 5, 3)]),
    "lstm_cell": (lambda: nn.LSTMCell(3, 4), sequence, [(2, 3)]),
    "gru_cell": (lambda: nn.GRUCell(3, 4), whole, [(2, 3)]),
    "attention": (attention_module(), attend, [(2, 7, 8)]),
    "attention_causal": (attention_module(bias=False), lambda m, x: attend(m, x, causal=True), [(2, 7, 8)]),
    "attention_masked": (attention_module(), masked(attend), [(3, 5, 8), key_mask(5, 2, 3, of=5)]),
    "attention_causal_masked": (
        attention_module(),
        masked(attend, causal=True),
        [(2, 6, 8), key_mask(4, 6, of=6)],
    ),
    "attention_grouped": (lambda: GroupedAttention(12, 6, 2), whole, [(2, 5, 12)]),
    "cross_attention": (attention_module(), attend, [(2, 3, 8), (2, 7, 8)]),
    "cross_attention_other_width": (
        attention_module(kdim=5, vdim=5),
        masked(attend),
        [(2, 4, 8), (2, 6, 5), key_mask(6, 1, of=6)],
    ),
    "attention_function": (None, attention_function, [(1, 70, 2, 3), (1, 130, 1, 3), (1, 130, 1, 3)]),
    "attention_function_causal": (
        None,
        lambda *qkv: attention_function(*qkv, causal=True),
        [(1, 70, 2, 3), (1, 130, 2, 3), (1, 130, 2, 3)],
    ),
    "attention_function_masked": (
        None,
        lambda q, k, v, mask: attention_function(q, k, v, mask, causal=True),
        [(2, 70, 1, 3), (2, 130, 1, 3), (2, 130, 1, 3), key_mask(67, 129, of=130)],
    ),
    "temporal_block": (lambda: TemporalBlock(3, 5, 3, 2), images, [(2, 9, 3)]),
    "temporal_block_plain": (lambda: TemporalBlock(4, 4, 2, 1), images, [(2, 9, 4)]),
    "prelu": (lambda: nn.PReLU(), whole, [(2, 5, 4)]),
    "prelu_channels": (lambda: nn.PReLU(4), images, [(2, 5, 4)]),
    "encoder_layer": (encoder_layer(), encode, [(2, 5, 8), key_mask(5, 3, of=5)]),
    "encoder_layer_norm_first": (encoder_layer(norm_first=True, activation="gelu"), whole, [(2, 5, 8)]),
    "decoder_layer": (decoder_layer(), decode, [(2, 4, 8), (2, 6, 8), key_mask(6, 2, of=6)]),
    "decoder_layer_norm_first": (
        decoder_layer(norm_first=True),
        decode,
        [(2, 4, 8), (2, 6, 8), key_mask(3, 6, of=6)],
    ),
}


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),  # of one pixel, so the order of axes doesn't matter
        nn.Linear(16, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 3),
    )


def mlp():
    return nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4))


def adam(module):
    return torch.optim.Adam(module.parameters(), lr=3e-3)


def momentum(module):
    return torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)


def adamw_of_matrices(module):
    parameters = list(module.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))


def cross_entropy(y, labels):
    return F.cross_entropy(y.flatten(0, -2), labels.flatten())


# name: module, call, input of one batch, targets of one batch, loss, optimizer
MODELS = {
    "mlp": (mlp, whole, (8, 10), tokens(8, below=4), cross_entropy, adam),
    "lenet": (lenet, classes, (4, 12, 12, 1), tokens(4, below=3), cross_entropy, adam),
    "resnet": (
        lambda: ResNet([1, 1], [4, 8], False, True, 3),
        classes,
        (4, 8, 6, 3),
        tokens(4, below=3),
        cross_entropy,
        momentum,
    ),
    "resnet_bottleneck": (
        lambda: ResNet([1, 2], [2, 4], True, False, 3),
        classes,
        (4, 16, 16, 3),
        tokens(4, below=3),
        cross_entropy,
        momentum,
    ),
    "lstm_forecaster": (
        lambda: Forecaster(nn.LSTM(3, 6, 2, batch_first=True), nn.Linear(6, 1)),
        whole,
        (5, 7, 3),
        (5, 1),
        F.mse_loss,
        adam,
    ),
    "gru_forecaster": (
        lambda: Forecaster(nn.GRU(3, 6, 2, batch_first=True), nn.Linear(6, 1)),
        whole,
        (5, 7, 3),
        (5, 1),
        F.mse_loss,
        adam,
    ),
    "temporal_forecaster": (lambda: TemporalForecaster(2, 5, 3, 3), whole, (4, 16, 2), (4, 1), F.mse_loss, adam),
    "gpt": (
        lambda: Gpt(11, 8, 2, 2, 16, False),
        whole,
        tokens(4, 8, below=11),
        tokens(4, 8, below=11),
        cross_entropy,
        adamw_of_matrices,
    ),
    "gpt_biases": (
        lambda: Gpt(7, 6, 1, 2, 8, True),
        whole,
        tokens(3, 6, below=7),
        tokens(3, 6, below=7),
        cross_entropy,
        adamw_of_matrices,
    ),
    "unet": (
        lambda: UNet(3, [4, 8, 12], 2, 3),
        images,
        (2, 8, 12, 3),
        tokens(2, 8, 12, below=3),
        cross_entropy,
        adam,
    ),
}
BATCHES = 4


def random_tensor(rng, wanted):
    """A tensor of this shape, exact in f32, or what the function makes of the random numbers."""
    if callable(wanted):
        return torch.from_numpy(np.ascontiguousarray(wanted(rng)))
    return torch.from_numpy(rng.standard_normal(wanted).astype(np.float32)).double()


def with_weights(make, rng):
    """The module in f64 with weights drawn from `rng`, exact in f32, none of them as it would start."""
    module = make().double()
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if not value.is_floating_point():
                continue
            fan_in = value[0].numel() if value.dim() > 1 else 1
            drawn = rng.standard_normal(tuple(value.shape)) / np.sqrt(fan_in)
            if value.dim() < 2:  # biases near 0, gains and variances near 1
                drawn = 0.2 * drawn + (1 if name.endswith(("norm.weight", "running_var")) or name == "weight" else 0)
            value.copy_(torch.from_numpy(np.abs(drawn) if name.endswith("running_var") else drawn).float())
    return module


def state_of(module):
    return {k: v.detach().clone() for k, v in module.state_dict().items() if v.is_floating_point()}


def second_biases(module):
    """Names of those biases that an LSTM adds to another: isochron has one, which is trained as the first."""
    return [
        f"{path}.{name}".lstrip(".")
        for path, child in module.named_modules()
        if isinstance(child, (nn.LSTM, nn.LSTMCell))
        for name, _ in child.named_parameters(recurse=False)
        if "bias_hh" in name
    ]


def gradients_of(module):
    """By name; where an LSTM adds two biases, the second's is left to the first."""
    second = second_biases(module)
    return {k: torch.zeros_like(v) if k in second else v.grad.clone() for k, v in module.named_parameters()}


def record(name, make, call, inputs, rng):
    """Everything of one case but the losses; returns the module as it was before."""
    tensors = {}
    inputs = [random_tensor(rng, wanted) for wanted in inputs]
    module = with_weights(make, rng) if make else None
    if module:
        tensors.update({f"initial.{k}": v.float() for k, v in state_of(module).items()})
    for i, value in enumerate(inputs):
        tensors[f"input.{i}"] = value.clone()
        if value.is_floating_point():
            value.requires_grad_()
    y = call(module, *inputs) if module else call(*inputs)
    tensors["y"] = y.detach()
    tensors["dy"] = random_tensor(rng, tuple(y.shape))
    (y * tensors["dy"]).sum().backward()
    for i, value in enumerate(inputs):
        if value.is_floating_point():
            tensors[f"gradient_of_input.{i}"] = value.grad
    if module:
        tensors.update({f"gradient.{k}": v for k, v in gradients_of(module).items()})
        buffers = {k: v for k, v in module.named_buffers() if v.is_floating_point()}
        tensors.update({f"after.{k}": v.clone() for k, v in buffers.items()})
    return {f"{name}.{k}": v.detach().contiguous() for k, v in tensors.items()}


def losses(make, call, state, x, target, loss_of, make_optimizer, dtype):
    module = make().to(dtype)
    module.load_state_dict({k: v.to(dtype) for k, v in state.items()}, strict=False)
    for name in second_biases(module):
        module.get_parameter(name).requires_grad_(False)
    optimizer = make_optimizer(module)
    result = []
    for step in range(golden.TRAINING_STEPS):
        batch = [t[step % BATCHES] for t in (x, target)]
        inputs, wanted = (t.to(dtype) if t.is_floating_point() else t for t in batch)
        optimizer.zero_grad()
        loss = loss_of(call(module, inputs), wanted)
        loss.backward()
        optimizer.step()
        result.append(loss.detach())
    return torch.stack(result)


def main():
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__, "safetensors": safetensors.__version__}
    tensors = {}
    for index, (name, (make, call, inputs)) in enumerate(LAYERS.items()):
        tensors.update(record(name, make, call, inputs, np.random.default_rng([golden.SEED, index])))
    golden.save_safetensors("layers_torch.safetensors", tensors, __file__, versions)
    for index, (name, (make, call, x, target, loss_of, make_optimizer)) in enumerate(MODELS.items()):
        rng = np.random.default_rng([golden.SEED, 100 + index])
        tensors = record(name, make, call, [x], rng)
        state = {k.removeprefix(f"{name}.initial."): v for k, v in tensors.items() if ".initial." in k}
        batches = [torch.stack([random_tensor(rng, wanted) for _ in range(BATCHES)]) for wanted in (x, target)]
        tensors.update({f"{name}.train.x": batches[0], f"{name}.train.target": batches[1]})
        for dtype, short in ((torch.float64, "f64"), (torch.float32, "f32")):
            curve = losses(make, call, state, *batches, loss_of, make_optimizer, dtype)
            tensors[f"{name}.losses.{short}"] = curve
        exact, rounded = (tensors[f"{name}.losses.{short}"].double() for short in ("f64", "f32"))
        print(f"{name}: loss {exact[0]:.4f} to {exact[-1]:.4f}, f32 apart by {((rounded - exact) / exact).abs().max():.1e}")
        golden.save_safetensors(f"model_{name}_torch.safetensors", tensors, __file__, versions)


def check(folder):
    """What isochron saved under PyTorch's names must load strictly and compute what was recorded."""
    count = 0
    for name, (make, call, *_) in {**LAYERS, **MODELS}.items():
        if not make:
            continue
        source = "layers" if name in LAYERS else f"model_{name}"
        known = safetensors.torch.load_file(golden.FOLDER / f"{source}_torch.safetensors")
        module = make().double()
        saved = safetensors.torch.load_file(folder / f"{name}.safetensors")
        counters = {k: v for k, v in module.state_dict().items() if k.endswith("num_batches_tracked")}
        module.load_state_dict({**saved, **counters}, strict=True)
        inputs = [known[k] for k in (f"{name}.input.{i}" for i in range(4)) if k in known]
        torch.testing.assert_close(call(module, *inputs).detach(), known[f"{name}.y"])
        count += 1
    print(f"{folder}: {count} modules agree")


if __name__ == "__main__":
    check(pathlib.Path(sys.argv[2])) if sys.argv[1:2] == ["--check"] else main()
