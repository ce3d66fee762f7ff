# SPDX-License-Identifier: Apache-2.0
"""The networks of export_models.py: builders, fixed-seed weights and inputs, no downloads.

`MODELS[name]` says how to build a network and its inputs; `build(name)` returns it ready for
inference with activations of ordinary size and non-trivial normalisation statistics.
"""

import dataclasses
import math
import zlib

import numpy as np
import torch
import torchvision
from torch import nn


class Encoder(nn.Module):
    """PyTorch's own TransformerEncoder over a batch-first input, final layer norm included.

    The layers run sequence-first: the batch-first ones take a fused path in eval mode that the
    exporter does not know.
    """

    def __init__(self, layers=4, width=256, heads=8):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width),
                                             enable_nested_tensor=False)

    def forward(self, tokens):
        return self.encoder(tokens.transpose(0, 1)).transpose(0, 1)


class DecoderBlock(nn.Module):
    """Pre-LN block of GPT-2: causal self-attention and a tanh-GELU MLP."""

    def __init__(self, width, heads, max_length):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        mask = torch.ones(max_length, max_length, dtype=torch.bool).tril()
        self.register_buffer("mask", mask[None, None])

    def attention(self, x):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                             for part in self.qkv(x).split(width, dim=2))
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        lowest = torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype)
        scores = torch.where(self.mask[:, :, :length, :length], scores, lowest)
        mixed = scores.softmax(-1) @ value
        return self.projection(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        hidden = self.up(self.norm2(x))
        inner = math.sqrt(2 / math.pi) * (hidden + 0.044715 * torch.pow(hidden, 3.0))
        return x + self.down(0.5 * hidden * (1.0 + torch.tanh(inner)))


class Decoder(nn.Module):
    """GPT-2-like language model: learned positions, tied output weights, logits per position."""

    def __init__(self, vocabulary=8000, layers=4, width=256, heads=8, max_length=256):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, heads, max_length) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, token_ids):
        positions = torch.arange(token_ids.shape[1], device=token_ids.device).unsqueeze(0)
        x = self.token(token_ids) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.token.weight)


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Four levels down and up; each way up is another one: two transposed convolutions (kernel 2
    and overlapping kernel 4), nearest and bilinear resize, and skips by concatenation."""

    def __init__(self, classes=4, base=32):
        super().__init__()
        widths = [base, 2 * base, 4 * base, 8 * base, 8 * base]
        self.down = nn.ModuleList([double_conv(3, widths[0])] + [
            double_conv(a, b) for a, b in zip(widths[:-1], widths[1:])])
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList([
            nn.ConvTranspose2d(widths[4], widths[3], 2, stride=2),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"),
                          nn.Conv2d(widths[3], widths[2], 1)),
            nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                          nn.Conv2d(widths[2], widths[1], 3, padding=1)),
            nn.ConvTranspose2d(widths[1], widths[0], 4, stride=2, padding=1)])
        self.merge = nn.ModuleList(double_conv(2 * w, w) for w in reversed(widths[:4]))
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, image):
        skips = [self.down[0](image)]
        for level in list(self.down)[1:]:
            skips.append(level(self.pool(skips[-1])))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def vit_tiny():
    return torchvision.models.VisionTransformer(image_size=224, patch_size=16, num_layers=12,
                                                num_heads=3, hidden_dim=192, mlp_dim=768)


def images(batch, size, generator):
    """Image-like N(0,1) data: noise at four scales, so that neighbouring pixels are correlated."""
    total = torch.zeros(batch, 3, size, size)
    for cells in (4, 16, 64, size):
        noise = torch.randn(batch, 3, cells, cells, generator=generator)
        total += nn.functional.interpolate(noise, size=(size, size), mode="bilinear",
                                           align_corners=False)
    return (total - total.mean()) / total.std()


@dataclasses.dataclass(frozen=True)
class Model:
    build: object  # () -> nn.Module
    inputs: object  # (batch, generator, **sizes) -> tensor
    input_name: str
    output_name: str
    keep_bn: bool  # export the BatchNormalization nodes instead of letting the exporter fold them
    note: str
    free_length: bool = False  # the second input dimension may be free: a sequence


def _image_input(size):
    return lambda batch, generator: images(batch, size, generator)


def _tokens(batch, generator, length=128):
    return torch.randn(batch, length, 256, generator=generator)


def _token_ids(batch, generator, length=128):
    return torch.randint(0, 8000, (batch, length), generator=generator)


MODELS = {
    "resnet18": Model(lambda: torchvision.models.resnet18(weights=None), _image_input(224),
                      "image", "logits", True, "torchvision, BatchNormalization kept"),
    "resnet50": Model(lambda: torchvision.models.resnet50(weights=None), _image_input(224),
                      "image", "logits", False, "torchvision, BN folded by the exporter"),
    "mobilenet_v2": Model(lambda: torchvision.models.mobilenet_v2(weights=None),
                          _image_input(224), "image", "logits", True,
                          "torchvision, BatchNormalization kept, depthwise convolutions"),
    "transformer_encoder": Model(
        Encoder, _tokens, "tokens", "encoded", False,
        "nn.TransformerEncoder, 4 layers, post-LN, erf-GELU", True),
    "gpt2_like": Model(
        Decoder, _token_ids, "token_ids", "logits", False,
        "4 layers, pre-LN, causal, tanh-GELU, tied embedding", True),
    "unet": Model(UNet, _image_input(128), "image", "mask_logits", True,
                  "ConvTranspose (two kinds), nearest and bilinear Resize, Concat"),
    "vit_tiny": Model(vit_tiny, _image_input(224), "image", "logits", False,
                      "torchvision VisionTransformer, 12 layers, 192 wide"),
}


def _last_norm_of_residual_branch(layer):
    if isinstance(layer, torchvision.models.resnet.BasicBlock):
        return layer.bn2
    if isinstance(layer, torchvision.models.resnet.Bottleneck):
        return layer.bn3
    if isinstance(layer, torchvision.models.mobilenetv2.InvertedResidual) and layer.use_res_connect:
        return layer.conv[-1]
    return None


def _initialize(module, generator):
    """Variance-preserving weights, small biases, normalisation scales away from one."""
    def normal(tensor, std):
        tensor.normal_(0.0, std, generator=generator)

    for layer in module.modules():
        if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
            fan_in = layer.weight[0].numel()
            if isinstance(layer, nn.ConvTranspose2d):  # weight is I x O x kh x kw
                overlap = layer.kernel_size[0] * layer.kernel_size[1] / layer.stride[0] ** 2
                fan_in = layer.in_channels * overlap
            normal(layer.weight, math.sqrt(2.0 / fan_in))
            if layer.bias is not None:
                normal(layer.bias, 0.1)
        elif isinstance(layer, nn.Linear):
            normal(layer.weight, 1.0 / math.sqrt(layer.in_features))
            if layer.bias is not None:
                normal(layer.bias, 0.1)
        elif isinstance(layer, nn.MultiheadAttention):
            normal(layer.in_proj_weight, 1.0 / math.sqrt(layer.embed_dim))
            normal(layer.in_proj_bias, 0.1)
        elif isinstance(layer, nn.Embedding):
            normal(layer.weight, 0.25)
        elif isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            layer.weight.uniform_(0.6, 1.4, generator=generator)
            normal(layer.bias, 0.2)
            if isinstance(layer, nn.BatchNorm2d):
                layer.bias += 0.5
    # Positive batch-norm shifts (relu mostly passes) and short residual branches keep a deep
    # random net from amplifying rounding errors, as training does.
    for layer in module.modules():
        last_norm = _last_norm_of_residual_branch(layer)
        if last_norm is not None:
            last_norm.weight *= 0.4
    for name, parameter in module.named_parameters():
        if name in ("class_token", "encoder.pos_embedding"):
            normal(parameter, 0.25)


def _calibrate(module, inputs):
    """Gives BatchNorm layers the statistics that they really see, so that depth does not matter."""
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    if not norms:
        return
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # cumulative average
        layer.train()
    module(inputs)
    for layer in norms:
        layer.momentum = 0.1
        layer.eval()


def seed_of(name):
    return zlib.crc32(name.encode())


def build(name):
    """The network in inference mode with its fixed-seed weights."""
    generator = torch.Generator().manual_seed(seed_of(name))
    torch.manual_seed(seed_of(name))
    module = MODELS[name].build().eval()
    with torch.no_grad():
        _initialize(module, generator)
        _calibrate(module, MODELS[name].inputs(8, generator))
    return module


def example(name, batch, index=0, **sizes):
    """Input tensor number `index` of a model; `sizes` may give the length of a sequence."""
    generator = torch.Generator().manual_seed(seed_of(name) + 1000 * batch + index + 1)
    return MODELS[name].inputs(batch, generator, **sizes)


def activation_spread(module, inputs):
    """Smallest and largest standard deviation of any leaf layer's output: the health check."""
    spread = []

    def record(_layer, _inputs, output):
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            spread.append(float(output.float().std()))

    hooks = [layer.register_forward_hook(record) for layer in module.modules()
             if not list(layer.children())]
    with torch.no_grad():
        module(inputs)
    for hook in hooks:
        hook.remove()
    return float(np.min(spread)), float(np.max(spread))
