"""The larger cases in PyTorch: resnet20, lstm and gpt with the common first weights, and unet."""

import common
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.path(x) + self.shortcut(x))


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
        for width, stride in common.RESNET_STAGES:
            for block in range(3):
                layers.append(Block(inputs, width, stride if block == 0 else 1))
                inputs = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(64, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class UNetBlock(nn.Sequential):
    def __init__(self, inputs, outputs, groups):
        layers = []
        for channels in (inputs, outputs):
            convolution = nn.Conv2d(channels, outputs, 3, padding=1, bias=False)
            layers += [convolution, nn.GroupNorm(groups, outputs), nn.ReLU()]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, widths, groups, outputs):
        super().__init__()
        above, below = widths[-2::-1], widths[:0:-1]
        self.down = nn.ModuleList(UNetBlock(i, o, groups) for i, o in zip([3, *widths[:-1]], widths))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, 2) for i, o in zip(below, above))
        self.up = nn.ModuleList(UNetBlock(2 * width, width, groups) for width in above)
        self.head = nn.Conv2d(widths[0], outputs, 1)

    def forward(self, x):
        levels = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if levels else x)
            levels.append(x)
        for rise, block in zip(self.rise, self.up):
            levels.pop()
            x = block(torch.cat([levels[-1], rise(x)], 1))
        return self.head(x)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 64, batch_first=True)
        self.out = nn.Linear(64, 1)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix = nn.Linear(width, width, bias=False)
        self.wide = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        n, t, width = x.shape
        parts = self.qkv(self.norm1(x)).view(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.mix(y.transpose(1, 2).reshape(n, t, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, blocks, heads, width, context, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(GptBlock(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width, bias=False)
        self.register_buffer("places", torch.arange(context))

    def forward(self, x):
        return F.linear(self.norm(self.blocks(self.tokens(x) + self.positions(self.places))), self.tokens.weight)


def initialize(model):
    """Gives every kernel the common weights, in the order in which the modules are written; biases are 0."""
    kernels = common.Kernels()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                o, i, h, w = module.weight.shape
                module.weight.copy_(torch.from_numpy(kernels((h, w, i, o))).permute(3, 2, 0, 1))
            elif isinstance(module, nn.Linear):
                module.weight.copy_(torch.from_numpy(kernels(module.weight.T.shape)).T)
            elif isinstance(module, nn.Embedding):
                module.weight.copy_(torch.from_numpy(kernels(tuple(module.weight.shape))))
            elif isinstance(module, nn.LSTM):
                module.weight_ih_l0.copy_(torch.from_numpy(kernels(module.weight_ih_l0.T.shape)).T)
                module.weight_hh_l0.copy_(torch.from_numpy(kernels(module.weight_hh_l0.T.shape)).T)
                module.bias_ih_l0.zero_(), module.bias_hh_l0.zero_()
            if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
                module.bias.zero_()
    return model


def build(case, device="cpu"):
    """(model, optimizer, loss(prediction, y))."""
    if case == "resnet20":
        model = initialize(ResNet20()).to(device, memory_format=torch.channels_last)
        kind = "fused" if device == "cuda" else "foreach"
        return model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, **{kind: True}), F.cross_entropy
    if case == "unet":
        model = UNet([32, 64, 128], 8, 1).to(device, memory_format=torch.channels_last)
        return model, torch.optim.Adam(model.parameters(), 1e-3, eps=1e-7, fused=True), F.mse_loss
    if case == "lstm":
        model = initialize(Forecaster()).to(device)
        return model, torch.optim.Adam(model.parameters(), 1e-3, eps=1e-7, fused=True), F.mse_loss
    model = initialize(Gpt(**common.GPT)).to(device)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, 1e-3, betas=(0.9, 0.99), fused=True)
    return model, optimizer, lambda scores, y: F.cross_entropy(scores.flatten(0, 1), y.flatten())
