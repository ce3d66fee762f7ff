# SPDX-License-Identifier: Apache-2.0
"""Small networks of all kinds, each with its inputs and its loss, for tests and for benchmarks/pytorch_models.py."""
import dataclasses
import math
import typing

import torch
from torch import nn
from torch.nn import functional as F

MODES = ["eager", "lazy", "compiled"]


def set_mode(mode):
    """"eager", "lazy", or "compiled" (what in_mode() gives; the rest is eager), from here on."""
    torch.hpu.set_lazy(mode == "lazy")


def in_mode(mode, module):
    """What is called in `mode`: the module, or what a mode makes of it. (Also an optimiser.)"""
    if mode == "compiled":
        import hpu_torch
        hpu_torch.compile(module)
    return module


def flat(value):
    """The tensors of a result, on the CPU."""
    return [value.cpu()] if isinstance(value, torch.Tensor) else [t for part in value for t in flat(part)]


class Encoder(nn.Module):
    def __init__(self, words=50, width=32, heads=4, layers=2, dropout=0.):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, 2 * width, dropout, batch_first=True), layers)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        return self.head(self.body(self.embedding(x)))


class Recurrent(nn.Module):
    """A class of each sequence."""

    def __init__(self, kind=nn.LSTM, inputs=8, width=16, classes=3, **options):
        super().__init__()
        self.body = kind(inputs, width, batch_first=True, **options)
        self.head = nn.Linear(width * (2 if options.get("bidirectional") else 1), classes)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).masked_fill(mask, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Decoder(nn.Module):
    """As GPT-2: learned positions, norms before each part, the words' embedding is the head."""

    def __init__(self, words=64, width=32, heads=4, layers=2, room=64, dropout=0.):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(room, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(width), "attention": Attention(width, heads), "norm2": nn.LayerNorm(width),
                           "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))}) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        nn.init.normal_(self.words.weight, std=.1)
        self.head.weight = self.words.weight

    def forward(self, x):
        at = torch.arange(x.shape[1], device=x.device)
        mask = at > at[:, None]
        x = self.dropout(self.words(x) + self.positions(at))
        for block in self.blocks:
            x = x + self.dropout(block["attention"](block["norm"](x), mask))
            x = x + self.dropout(block["mlp"](block["norm2"](x)))
        return self.head(self.norm(x))


def double(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=8, classes=2, upsample=False):
        super().__init__()
        self.down, self.middle, self.up = double(3, width), double(width, 2 * width), double(2 * width, width)
        self.grow = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(2 * width, width, 1)) if upsample else nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skip = self.down(x)
        return self.head(self.up(torch.cat([skip, self.grow(self.middle(F.max_pool2d(skip, 2)))], 1)))


class Diffusion(nn.Module):
    """A block of a denoiser: what noise was added, from the noisy image and its time."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.stem, self.head = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.norm, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.conv, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, x, time):
        rates = torch.exp(torch.arange(self.width // 2, device=x.device) * (-math.log(10000.) / (self.width // 2)))
        angles = time[:, None].float() * rates
        x = self.stem(x)
        y = self.conv(F.silu(self.norm(x))) + self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        return self.head(x + self.conv2(F.silu(self.norm2(y))))


def overlap(a, b):
    """The share of the union of boxes [..., 4] (left, top, right, bottom) that both cover."""
    area = lambda sides: sides.clamp(min=0)[..., 0] * sides.clamp(min=0)[..., 1]  # noqa: E731: prod()'s gradient looks at values on the host
    inside = area(torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2]))
    a, b = area(a[..., 2:] - a[..., :2]), area(b[..., 2:] - b[..., :2])
    return inside / (a + b - inside + 1e-6)


class Detector(nn.Module):
    """Scores and boxes of an image's cells."""

    def __init__(self, width=8, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU())
        self.scores, self.boxes = nn.Conv2d(width, classes, 1), nn.Conv2d(width, 4, 1)

    def forward(self, x):
        y = self.body(x)
        scores, boxes = self.scores(y).flatten(2).transpose(1, 2), self.boxes(y).flatten(2).transpose(1, 2).sigmoid()
        centre, size = boxes[..., :2], boxes[..., 2:]
        return scores, torch.cat([centre - size / 2, centre + size / 2], -1)


def found(scores, boxes, most=4):
    """The boxes with the highest scores, their classes, and how much each overlaps with the best one."""
    best, classes = scores.max(-1)
    values, cells = best.topk(most, 1)
    chosen = boxes.gather(1, cells[..., None].expand(-1, -1, 4))
    return values, classes.gather(1, cells), chosen, overlap(chosen, chosen[:, :1])


def classify(net, x, target):
    return F.cross_entropy(net(x).flatten(0, -2) if target.dim() > 1 else net(x), target.flatten())


def segment(net, x, target):
    return F.cross_entropy(net(x), target)


def denoise(net, x, time, noise):
    return F.mse_loss(net(x + noise, time), noise)


def detect(net, x, boxes, classes):
    scores, proposed = net(x)
    shared = overlap(proposed, boxes[:, None])
    cell = shared.detach().argmax(1)
    chosen = proposed.gather(1, cell[:, None, None].expand(-1, 1, 4))[:, 0]
    return F.cross_entropy(scores[torch.arange(len(cell), device=cell.device), cell], classes) + F.smooth_l1_loss(chosen, boxes) + (1 - shared.amax(1)).mean()


@dataclasses.dataclass
class Net:
    make: typing.Callable
    batch: typing.Callable  # of a generator: the tensors that `loss` takes
    loss: typing.Callable = classify
    inputs: int = 1         # how many of them the network takes


def images(size, classes, count, channels=3):
    return lambda g: (torch.randn(count, channels, size, size, generator=g), torch.randint(classes, (count,), generator=g))


def words(many, count, length):
    return lambda g: (torch.randint(many, (count, length), generator=g), torch.randint(many, (count, length), generator=g))


def sequences(count, length, width=8, classes=3):
    return lambda g: (torch.randn(count, length, width, generator=g), torch.randint(classes, (count,), generator=g))


def resnet18(classes=10):
    import torchvision
    return torchvision.models.resnet18(num_classes=classes)


def convolutions(width=8, classes=5):
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width),
                         nn.ReLU(), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes))


def detections(g):
    corner = torch.rand(4, 2, generator=g) * .5
    return torch.randn(4, 3, 16, 16, generator=g), torch.cat([corner, corner + .1 + torch.rand(4, 2, generator=g) * .4], 1), torch.randint(3, (4,), generator=g)


NETS = {
    "mlp": Net(lambda: nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(.3), nn.Linear(64, 5)), lambda g: (torch.randn(16, 20, generator=g), torch.randint(5, (16,), generator=g))),
    "convolutions": Net(convolutions, images(16, 5, 8)),
    "resnet18": Net(resnet18, images(64, 10, 4)),
    "encoder": Net(lambda: Encoder(dropout=.1), words(50, 4, 10)),
    "lstm": Net(lambda: Recurrent(num_layers=2, bidirectional=True, dropout=.2), sequences(4, 6)),
    "gru": Net(lambda: Recurrent(nn.GRU, num_layers=2), sequences(4, 6)),
    "rnn": Net(lambda: Recurrent(nn.RNN, bidirectional=True), sequences(4, 6)),
    "decoder": Net(lambda: Decoder(dropout=.1), words(64, 3, 12)),
    "unet": Net(UNet, lambda g: (torch.randn(2, 3, 16, 16, generator=g), torch.randint(2, (2, 16, 16), generator=g)), segment),
    "unet upsampled": Net(lambda: UNet(upsample=True), lambda g: (torch.randn(2, 3, 16, 16, generator=g), torch.randint(2, (2, 16, 16), generator=g)), segment),
    "diffusion": Net(Diffusion, lambda g: (torch.randn(2, 3, 8, 8, generator=g), torch.tensor([3, 500]), torch.randn(2, 3, 8, 8, generator=g)), denoise, 2),
    "detector": Net(Detector, detections, detect),
}
