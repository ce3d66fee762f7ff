# SPDX-License-Identifier: Apache-2.0
"""The sequence networks of nets.py that PyTorch has no builder for."""

import math

import torch
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


class RMSNorm(nn.Module):
    """x / rms(x) * weight, the statistics in f32 as LLaMA's."""

    def __init__(self, width, epsilon=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * scaled.to(x.dtype)


class LlamaBlock(nn.Module):
    """Pre-norm block of LLaMA 2/3: grouped-query attention with rotary positions, SwiGLU."""

    def __init__(self, width, heads, kv_heads, inner):
        super().__init__()
        self.heads, self.kv_heads, self.head_width = heads, kv_heads, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    @staticmethod
    def rotate(x, cosine, sine):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cosine + turned * sine

    def repeat(self, x):
        """Every key/value head once for each query head of its group."""
        batch, heads, length, width = x.shape
        group = self.heads // heads
        return x[:, :, None].expand(batch, heads, group, length, width).reshape(
            batch, heads * group, length, width)

    def attention(self, x, cosine, sine, mask, past):
        batch, length, width = x.shape
        query, key, value = (
            linear(x).view(batch, length, heads, self.head_width).transpose(1, 2)
            for linear, heads in ((self.query, self.heads), (self.key, self.kv_heads),
                                  (self.value, self.kv_heads)))
        query, key = self.rotate(query, cosine, sine), self.rotate(key, cosine, sine)
        if past is not None:
            key, value = torch.cat((past[0], key), dim=2), torch.cat((past[1], value), dim=2)
        scores = query @ self.repeat(key).transpose(2, 3) / math.sqrt(self.head_width)
        if mask is not None:
            scores = scores + mask
        weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        mixed = (weights @ self.repeat(value)).transpose(1, 2).reshape(batch, length, width)
        return self.projection(mixed), key, value

    def forward(self, x, cosine, sine, mask, past):
        mixed, key, value = self.attention(self.norm1(x), cosine, sine, mask, past)
        x = x + mixed
        hidden = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(hidden)) * self.up(hidden)), key, value


class Llama(nn.Module):
    """A stack of LLaMA blocks over embedded tokens and their positions, key/value cache included.

    Without past keys and values it is the prefill (causal mask), with them a step of decoding; both
    give the caches that the next step takes.
    """

    def __init__(self, layers=2, width=1024, heads=16, kv_heads=4, inner=2816, max_length=512):
        super().__init__()
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv_heads, inner)
                                    for _ in range(layers))
        self.norm = RMSNorm(width)
        head_width = width // heads
        frequency = 1.0 / 10000 ** (torch.arange(0, head_width, 2).float() / head_width)
        angle = torch.arange(max_length).float()[:, None] * frequency[None]
        self.register_buffer("cosine", torch.cat((angle, angle), dim=-1).cos())
        self.register_buffer("sine", torch.cat((angle, angle), dim=-1).sin())
        lowest = torch.full((max_length, max_length), torch.finfo(torch.float32).min)
        self.register_buffer("mask", lowest.triu(1))

    def forward(self, hidden, positions, *past):
        length = hidden.shape[1]
        cosine, sine = self.cosine[positions][:, None], self.sine[positions][:, None]
        mask = None if past else self.mask[:length, :length]
        caches = []
        for index, block in enumerate(self.blocks):
            pair = past[2 * index:2 * index + 2] if past else None
            hidden, key, value = block(hidden, cosine, sine, mask, pair)
            caches += [key, value]
        return (self.norm(hidden), *caches)
