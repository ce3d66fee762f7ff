# SPDX-License-Identifier: Apache-2.0
"""Transformers of other kinds: with masks, relative positions, experts, latents; all of them narrow."""

import math

import torch
from torch import nn
from torch.nn import functional

WORDS = 500


class Attention(nn.Module):
    """Heads over queries of one sequence and keys and values of the same or another; `bias` is added to scores."""

    def __init__(self, width, heads, of=None, bias=True):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key, self.value = nn.Linear(of or width, width, bias=bias), nn.Linear(of or width, width, bias=bias)
        self.projection = nn.Linear(width, width, bias=bias)

    def split(self, x):
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x, memory=None, bias=None, scale=True):
        memory = x if memory is None else memory
        query, key, value = self.split(self.query(x)), self.split(self.key(memory)), self.split(self.value(memory))
        scores = query @ key.transpose(2, 3)
        if scale:
            scores = scores / math.sqrt(query.shape[-1])
        if bias is not None:
            scores = scores + bias
        mixed = torch.softmax(scores, -1) @ value
        return self.projection(mixed.transpose(1, 2).flatten(2))


def mlp(width, inner, activation):
    return nn.Sequential(nn.Linear(width, inner), activation, nn.Linear(inner, width))


class Bert(nn.Module):
    """Words, positions and kinds of sentences; post-norm blocks with a mask of padding; a pooled output."""

    def __init__(self, width=64, heads=4, layers=2, longest=64):
        super().__init__()
        self.words, self.positions, self.kinds = (nn.Embedding(n, width) for n in (WORDS, longest, 2))
        self.norm, self.pooler = nn.LayerNorm(width), nn.Linear(width, width)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.mlp = nn.ModuleList(mlp(width, 4 * width, nn.GELU()) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))

    def forward(self, input_ids, attention_mask, token_type_ids):
        places = torch.arange(input_ids.shape[1])[None]
        x = self.norm(self.words(input_ids) + self.positions(places) + self.kinds(token_type_ids))
        mask = (1.0 - attention_mask[:, None, None].to(x.dtype)) * -10000.0
        for index, (attention, inner) in enumerate(zip(self.attention, self.mlp)):
            x = self.norms[2 * index](x + attention(x, bias=mask))
            x = self.norms[2 * index + 1](x + inner(x))
        return x, torch.tanh(self.pooler(x[:, 0]))


class T5Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def t5_buckets(queries, keys, both, count=32, longest=128):
    """Bucket of each distance between a query and a key: exact ones nearby, then logarithmic ones."""
    distance = torch.arange(keys)[None] - torch.arange(queries)[:, None]
    start = torch.zeros_like(distance)
    if both:
        count //= 2
        start = (distance > 0).long() * count
        distance = distance.abs()
    else:
        distance = (-distance).clamp(min=0)
    exact = count // 2
    far = exact + (torch.log(distance.float().clamp(min=1) / exact) / math.log(longest / exact) * (count - exact)).long()
    return start + torch.where(distance < exact, distance, far.clamp(max=count - 1))


class T5(nn.Module):
    """Encoder and decoder with biases of relative positions, gated GELU, no biases in products."""

    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        def attentions():
            return nn.ModuleList(Attention(width, heads, bias=False) for _ in range(layers))
        def norms(count):
            return nn.ModuleList(T5Norm(width) for _ in range(count))
        def linears(a, b):
            return nn.ModuleList(nn.Linear(a, b, bias=False) for _ in range(2 * layers))
        self.words, self.near, self.before = nn.Embedding(WORDS, width), nn.Embedding(32, heads), nn.Embedding(32, heads)
        self.encoder, self.decoder, self.cross = attentions(), attentions(), attentions()
        self.norms, self.layers = norms(5 * layers + 2), layers
        self.gate, self.up, self.down = linears(width, 2 * width), linears(width, 2 * width), linears(2 * width, width)

    def feed(self, index, x):
        return self.down[index](functional.gelu(self.gate[index](x)) * self.up[index](x))

    def positions(self, table, length, both):
        return table(t5_buckets(length, length, both)).permute(2, 0, 1)[None]

    def forward(self, source, target):
        x, norms = self.words(source), iter(self.norms)
        near = self.positions(self.near, source.shape[1], True)
        for index in range(self.layers):
            x = x + self.encoder[index](next(norms)(x), bias=near, scale=False)
            x = x + self.feed(index, next(norms)(x))
        memory, x = next(norms)(x), self.words(target)
        length = target.shape[1]
        before = self.positions(self.before, length, False) + torch.full((length, length), -1e9).triu(1)
        for index in range(self.layers):
            x = x + self.decoder[index](next(norms)(x), bias=before, scale=False)
            x = x + self.cross[index](next(norms)(x), memory, scale=False)
            x = x + self.feed(self.layers + index, next(norms)(x))
        return functional.linear(next(norms)(x) / math.sqrt(x.shape[-1]), self.words.weight)


class Experts(nn.Module):
    """Each token goes to the best two of some experts, weighted by their softmax: all experts at once, the rest times zero."""

    def __init__(self, width, inner, count):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, inner) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(count, inner, width) / math.sqrt(inner))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        # The scores are kept in a wide range: routes that are nearly equal would turn with any rounding.
        best, which = torch.topk(8.0 * self.router(tokens), 2, dim=-1)
        weights = torch.zeros(tokens.shape[0], self.up.shape[0], dtype=x.dtype).scatter(1, which, torch.softmax(best / 8, -1))
        each = functional.silu(tokens[None] @ self.up) @ self.down
        return (each * weights.t()[..., None]).sum(0).view_as(x)


class Mixture(nn.Module):
    """Attention and a mixture of eight experts, twice."""

    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.experts = nn.ModuleList(Experts(width, 2 * width, 8) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))

    def forward(self, token_ids):
        x, norms = self.words(token_ids), iter(self.norms)
        for attention, experts in zip(self.attention, self.experts):
            x = x + attention(next(norms)(x))
            x = x + experts(next(norms)(x))
        return next(norms)(x)


class WhisperBlock(nn.Module):
    def __init__(self, width, heads, cross):
        super().__init__()
        self.attention, self.cross = Attention(width, heads), Attention(width, heads) if cross else None
        self.mlp = mlp(width, 4 * width, nn.GELU())
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))

    def forward(self, x, memory=None, mask=None):
        x = x + self.attention(self.norms[0](x), bias=mask)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.mlp(self.norms[-1](x))


class Whisper(nn.Module):
    """Log-mel frames through convolutions and an encoder, given tokens through a decoder: scores of the next ones."""

    def __init__(self, bands=40, width=64, heads=4, layers=2, frames=48, longest=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(bands, width, 3, padding=1), nn.GELU(),
                                  nn.Conv1d(width, width, 3, stride=2, padding=1), nn.GELU())
        angles = torch.arange(frames)[:, None] * torch.exp(-math.log(10000) * torch.arange(width // 2) / (width // 2 - 1))
        self.register_buffer("places", torch.cat((angles.sin(), angles.cos()), -1))
        self.register_buffer("mask", torch.full((longest, longest), float("-inf")).triu(1))
        self.words, self.positions = nn.Embedding(WORDS, width), nn.Embedding(longest, width)
        self.encoder = nn.ModuleList(WhisperBlock(width, heads, False) for _ in range(layers))
        self.decoder = nn.ModuleList(WhisperBlock(width, heads, True) for _ in range(layers))
        self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, features, tokens):
        x = self.stem(features).transpose(1, 2)
        x = x + self.places[:x.shape[1]]
        for block in self.encoder:
            x = block(x)
        memory, length = self.norm(x), tokens.shape[1]
        x = self.words(tokens) + self.positions.weight[:length]
        for block in self.decoder:
            x = block(x, memory, self.mask[:length, :length])
        return functional.linear(self.last(x), self.words.weight)


class Perceiver(nn.Module):
    """Latents that read a long input by cross-attention, think among themselves, and are read by an output query."""

    def __init__(self, features=20, width=48, latents=16, heads=4, rounds=2):
        super().__init__()
        self.latents, self.query = nn.Parameter(torch.randn(latents, width)), nn.Parameter(torch.randn(1, width))
        self.read = nn.ModuleList(Attention(width, 1, of=features) for _ in range(rounds))
        self.think = nn.ModuleList(Attention(width, heads) for _ in range(rounds))
        self.mlp = nn.ModuleList(mlp(width, 2 * width, nn.GELU()) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 * rounds))
        self.norm, self.answer, self.head = nn.LayerNorm(features), Attention(width, 1), nn.Linear(width, 10)

    def forward(self, inputs):
        inputs, norms = self.norm(inputs), iter(self.norms)
        x = self.latents.expand(inputs.shape[0], -1, -1)
        for read, think, inner in zip(self.read, self.think, self.mlp):
            x = x + read(next(norms)(x), inputs)
            x = x + think(next(norms)(x))
            x = x + inner(next(norms)(x))
        return self.head(self.answer(self.query.expand(inputs.shape[0], -1, -1), x)[:, 0])


class Performer(nn.Module):
    """Attention whose cost is linear: running sums of keys and values (a causal one, elu features)."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.words = heads, nn.Embedding(WORDS, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS)

    def forward(self, token_ids):
        x = self.words(token_ids)
        def split(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        query, key = (1 + functional.elu(split(linear(x))) for linear in (self.query, self.key))
        totals = torch.cumsum(key[..., None] * split(self.value(x))[..., None, :], 2)
        mixed = (query[..., None, :] @ totals)[..., 0, :] / (query * torch.cumsum(key, 2)).sum(-1, keepdim=True)
        return self.head(self.norm(x + mixed.transpose(1, 2).flatten(2)))


class Mixer(nn.Module):
    """MLP-Mixer: products over patches and over channels in turn."""

    def __init__(self, size=32, patch=8, width=48, layers=2):
        super().__init__()
        count = (size // patch)**2
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.tokens = nn.ModuleList(mlp(count, 2 * count, nn.GELU()) for _ in range(layers))
        self.channels = nn.ModuleList(mlp(width, 4 * width, nn.GELU()) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.head = nn.Linear(width, 10)

    def forward(self, image):
        x, norms = self.patches(image).flatten(2).transpose(1, 2), iter(self.norms)
        for tokens, channels in zip(self.tokens, self.channels):
            x = x + tokens(next(norms)(x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(next(norms)(x))
        return self.head(x.mean(1))


def ids(batch, generator, length):
    return torch.randint(0, WORDS, (batch, length), generator=generator)


def _sentence_pairs(batch, generator):
    mask = torch.ones(batch, 32, dtype=torch.int64)
    mask[-1, 25:] = 0
    kinds = (torch.arange(32) >= 14).long()[None].repeat(batch, 1)
    return {"input_ids": ids(batch, generator, 32), "attention_mask": mask, "token_type_ids": kinds}


# Name: builder, inputs (batch, generator) -> {name: tensor}, names of the outputs, what it shows.
NETWORKS = {
    "bert_like": (Bert, _sentence_pairs, ("hidden", "pooled"), "post-norm blocks, a mask of padding, a pooler"),
    "t5_like": (T5, lambda batch, generator: {"source": ids(batch, generator, 24), "target": ids(batch, generator, 16)},
                ("logits",), "relative positions, RMSNorm, cross-attention, gated GELU"),
    "mixture_of_experts": (Mixture, lambda batch, generator: {"token_ids": ids(batch, generator, 32)}, ("encoded",),
                           "TopK routes, scattered weights, batched products of experts"),
    "whisper_like": (Whisper, lambda batch, generator: {
        "features": torch.randn(batch, 40, 96, generator=generator), "tokens": ids(batch, generator, 12)}, ("logits",),
        "1-D convolutions, encoder and decoder with a causal mask"),
    "perceiver": (Perceiver, lambda batch, generator: {"inputs": torch.randn(batch, 200, 20, generator=generator)},
                  ("logits",), "cross-attention of learned latents"),
    "performer": (Performer, lambda batch, generator: {"token_ids": ids(batch, generator, 32)}, ("logits",),
                  "linear attention by running sums"),
    "mlp_mixer": (Mixer, lambda batch, generator: {"image": torch.randn(batch, 3, 32, 32, generator=generator)}, ("logits",),
                  "products over patches and channels"),
}
