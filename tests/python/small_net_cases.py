# SPDX-License-Identifier: Apache-2.0
"""Small PyTorch networks, each a block or an idiom of real models, with inputs from a fixed seed."""

import dataclasses
import typing

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}


@dataclasses.dataclass
class Case:
    """`make` gives the module and its inputs. `training` exports it in training mode (dropout 0):
    in evaluation mode PyTorch replaces it by a fused op that has no ONNX form."""

    name: str
    make: typing.Callable
    training: bool = False


def case(make=None, *, training=False):
    """Registers a function that gives (module or function, inputs...)."""
    def register(function):
        CASES[function.__name__] = Case(function.__name__, function, training)
        return function
    return register(make) if make else register


class Function(nn.Module):
    """A function as a module, so that it can be exported; keywords become its parameters."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            setattr(self, name, nn.Parameter(tensor))

    def forward(self, *inputs):
        return self.function(self, *inputs)


class SelfAttention(nn.Module):
    """nn.MultiheadAttention of one operand, which nn.Sequential cannot say."""

    def __init__(self, width, heads, mask=None):
        super().__init__()
        self.attention, self.mask = nn.MultiheadAttention(width, heads, batch_first=True), mask

    def forward(self, x):
        return self.attention(x, x, x, attn_mask=self.mask)[0]


randn = torch.randn


# Normalisation.

@case
def group_norm():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(),
                         nn.Conv2d(8, 8, 3, stride=2, groups=4)), randn(2, 3, 9, 9)


@case
def group_norm_relu():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8),
                         nn.ReLU()), randn(1, 3, 8, 8)


@case
def instance_norm_1d():
    return nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.InstanceNorm1d(8, affine=True),
                         nn.ReLU(), nn.Conv1d(8, 4, 3)), randn(2, 3, 12)


@case
def instance_norm_3d():
    return nn.InstanceNorm3d(4, affine=True), randn(2, 4, 3, 5, 4)


@case
def rms_norm():
    return Function(lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * m.scale,
                    scale=1 + randn(33) / 4), randn(2, 5, 33)


@case
def layer_norm_of_patches():
    return Function(lambda m, x: F.layer_norm(F.conv2d(x, m.w, m.b, 4).flatten(2).transpose(1, 2) + m.p,
                                              (64,), m.scale, m.b),
                    w=randn(64, 3, 4, 4) / 7, b=randn(64), p=randn(1, 64, 64),
                    scale=1 + randn(64) / 4), randn(2, 3, 32, 32)


@case
def norm_and_divide():
    return Function(lambda m, x: x / x.norm(dim=1, keepdim=True).clamp(min=1e-6)), randn(4, 9)


@case
def cosine_similarity():
    return Function(lambda m, a, b: F.cosine_similarity(a, b, dim=-1)), randn(4, 9), randn(4, 9)


@case
def variance():
    return Function(lambda m, a: (a.var(-1, unbiased=False), a.std(0))), randn(4, 9)


@case
def log_sum_exp():
    return Function(lambda m, x: torch.logsumexp(x, (1, 2))), randn(2, 9, 7)


@case
def reductions_to_scalars():
    return Function(lambda m, x: (x.sum(), x.mean(), x.amax((0, 2)))), randn(5, 33, 17)


# Attention and what is around it.

@case(training=True)
def attention():
    return SelfAttention(32, 4), randn(2, 7, 32)


@case(training=True)
def causal_attention():
    return SelfAttention(32, 4, torch.full((7, 7), float("-inf")).triu(1)), randn(2, 7, 32)


@case(training=True)
def encoder_layer():
    return nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, activation="gelu",
                                      norm_first=True), randn(2, 7, 32)


@case(training=True)
def decoder_layer():
    return nn.TransformerDecoderLayer(32, 4, 64, 0.0, batch_first=True), randn(2, 7, 32), randn(2, 5, 32)


@case
def attention_of_three_operands():
    return Function(lambda m, q, k, v: (q @ k.transpose(-1, -2) / 8).softmax(-1) @ v), *(
        randn(2, 4, 77, 64) for _ in range(3))


@case
def merged_projections():
    def forward(m, x):
        q, k, v = (x @ m.w).reshape(2, 50, 3, 4, 16).permute(2, 0, 3, 1, 4)
        return ((q @ k.transpose(-1, -2) / 4).softmax(-1) @ v).transpose(1, 2).reshape(2, 50, 64)
    return Function(forward, w=randn(64, 192) / 8), randn(2, 50, 64)


@case
def causal_mask():
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    return Function(lambda m, a: (a @ a.transpose(1, 2)).masked_fill(mask, float("-inf")).softmax(-1)), \
        randn(2, 6, 8)


@case
def einsum_attention():
    return Function(lambda m, a, b: torch.einsum("bhid,bhjd->bhij", a, b).softmax(-1)), \
        randn(2, 3, 4, 8), randn(2, 3, 5, 8)


@case
def rotary_embedding():
    angles = torch.arange(5.0)[:, None] * 10.0 ** -torch.arange(0, 4).repeat(2)

    def forward(m, x):
        turned = torch.cat([-x[..., 4:], x[..., :4]], -1)
        return x * angles.cos() + turned * angles.sin()
    return Function(forward), randn(2, 3, 5, 8)


@case
def embedding():
    return nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 8), nn.LayerNorm(8)), \
        torch.randint(0, 20, (2, 5))


@case
def embedding_with_positions():
    return Function(lambda m, i: F.embedding(i, m.w) + m.p, w=randn(500, 96), p=randn(17, 96)), \
        torch.randint(0, 500, (3, 17))


# Windows and other movement.

@case
def window_partition():
    return Function(lambda m, x: x.view(1, 2, 4, 2, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 6)), \
        randn(1, 8, 8, 6)


@case
def shifted_window_attention():
    """Roll, partition, attend, reverse, roll back."""
    def forward(m, x):
        y = torch.roll(x, (-2, -2), (1, 2)).view(1, 2, 4, 2, 4, 6)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(4, 16, 6)
        y = (y @ y.transpose(1, 2) / 3).softmax(-1) @ (y @ m.w)
        y = y.view(1, 2, 2, 4, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(1, 8, 8, 6)
        return x + torch.roll(y, (2, 2), (1, 2))
    return Function(forward, w=randn(6, 6)), randn(1, 8, 8, 6)


@case
def window_partition_rank_7():
    return Function(lambda m, x: x.view(1, 2, 2, 2, 2, 2, 3).permute(0, 1, 3, 5, 2, 4, 6).reshape(4, 8, 3) * 2), \
        randn(1, 4, 8, 3)


@case
def patch_merging():
    return Function(lambda m, x: torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2],
                                            x[:, 1::2, 1::2]], -1) @ m.w, w=randn(24, 12) / 5), \
        randn(2, 8, 6, 6)


@case
def roll():
    return Function(lambda m, x: torch.roll(x, (1, -2), (1, 2))), randn(2, 6, 7)


@case
def channel_shuffle():
    return Function(lambda m, x: x.view(2, 2, 4, 5, 5).transpose(1, 2).reshape(2, 8, 5, 5).chunk(2, 1)), \
        randn(2, 8, 5, 5)


@case
def pixel_shuffle():
    return nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(3)), \
        randn(1, 3, 5, 5)


@case
def slice_and_flip():
    return Function(lambda m, x: x[:, ::2, 1:-1].flip(1)), randn(2, 9, 7)


# Convolutions.

@case
def conv_1d():
    return nn.Sequential(nn.Conv1d(4, 8, 5, padding=2), nn.BatchNorm1d(8), nn.GELU(),
                         nn.Conv1d(8, 8, 3, groups=8, padding=1)), randn(2, 4, 21)


@case
def conv_transpose():
    return nn.Sequential(nn.ConvTranspose2d(4, 6, 4, 2, 1), nn.LeakyReLU(0.1),
                         nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(6, 3, 1)), \
        randn(1, 4, 5, 7)


@case
def squeeze_and_excite():
    return Function(lambda m, x: x * torch.sigmoid(F.adaptive_avg_pool2d(x, 1)) + F.hardswish(x)), \
        randn(2, 5, 6, 6)


@case
def separable_depthwise():
    return nn.Sequential(nn.Conv2d(6, 6, (1, 5), padding=(0, 2), groups=6),
                         nn.Conv2d(6, 6, (5, 1), padding=(2, 0), groups=6), nn.ReLU6()), randn(1, 6, 9, 9)


@case
def depthwise_padded_beyond_its_side():
    return nn.Sequential(nn.Conv2d(5, 5, (2, 1), padding=(2, 1), groups=5), nn.ReLU(),
                         nn.Conv2d(5, 5, (1, 3), padding=(1, 1), groups=5)), randn(1, 5, 4, 4)


@case
def depthwise_multiplier():
    return nn.Conv2d(4, 12, 3, padding=1, groups=4), randn(1, 4, 9, 9)


@case
def strided_dilated_conv():
    return nn.Conv2d(5, 7, (3, 2), stride=(3, 2), dilation=(2, 3), padding=(4, 1)), randn(3, 5, 17, 13)


@case
def conv_with_input_weights():
    return Function(lambda m, x, v: (F.conv2d(x, v.transpose(0, 1), None, 1, 1),
                                     F.conv_transpose2d(x, v.transpose(0, 1)[:5], None, 2, 1))), \
        randn(2, 5, 9, 9), randn(5, 7, 3, 3)


@case
def pools():
    return Function(lambda m, x: (F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1))), \
        randn(1, 3, 10, 11)


@case
def reflection_padding():
    return nn.Sequential(nn.ReflectionPad2d(2), nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True)), \
        randn(1, 2, 8, 8)


@case
def unet_join():
    def forward(m, x):
        down = F.interpolate(F.max_pool2d(F.conv2d(x, m.w, None, 1, 1), 2), scale_factor=2)
        return F.conv2d(torch.cat([down, F.conv2d(x, m.w, None, 1, 1)], 1), m.v, None, 1, 1)
    return Function(forward, w=randn(16, 8, 3, 3) / 8, v=randn(8, 32, 3, 3) / 17), randn(1, 8, 18, 22)


@case
def conv_then_classifier():
    return Function(lambda m, x: (F.conv2d(x, m.w, m.b, 1, 1).flatten(1) @ m.v).softmax(-1),
                    w=randn(64, 32, 3, 3) / 17, b=randn(64), v=randn(64 * 49, 10) / 50), randn(3, 32, 7, 7)


# Products and elementwise code.

@case
def linear_chain():
    return nn.Sequential(nn.Linear(300, 700), nn.ReLU(), nn.Linear(700, 1000), nn.Softmax(-1)), \
        randn(3, 300)


@case
def product_with_epilogue():
    return Function(lambda m, x: F.gelu(x @ m.w + m.b) * m.c + x[:, :129],
                    w=randn(513, 129) / 22, b=randn(129), c=randn(257, 1)), randn(257, 513)


@case
def product_of_broadcast_batches():
    return Function(lambda m, x, y: torch.sigmoid(x @ y) * 2 - x.sum((-1, -2), keepdim=True)), \
        randn(5, 1, 33, 17), randn(1, 6, 17, 65)


@case
def product_of_transposes():
    return Function(lambda m, x, y: (x.transpose(1, 2) @ y.transpose(1, 2)).tanh()), \
        randn(4, 65, 33), randn(4, 70, 65)


@case
def product_of_slices():
    return Function(lambda m, x, y: (x[:, ::2, 1::3] @ y[:, 3:20:2, :]).abs()), \
        randn(2, 30, 27), randn(2, 40, 33)


@case
def several_outputs():
    def forward(m, x):
        y = x @ m.w
        return y, y.relu(), y.transpose(0, 1), y.mean(1)
    return Function(forward, w=randn(40, 50) / 6), randn(30, 40)


@case
def comparisons():
    return Function(lambda m, x, y: (x > y) & (x > 0)), randn(4, 5), randn(4, 5)


@case
def where():
    return Function(lambda m, x: torch.where(x > 0, x.exp(), x * 2)), randn(4, 5)
