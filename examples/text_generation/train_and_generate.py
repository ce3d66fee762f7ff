#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT-2-like model on hpu on the licence texts that every Debian machine has, character by character, then continues a text
greedily, and compares with the CPU.

    train_and_generate.py [--steps 400] [--tokens 256] [--eager]

Keys and values of what was read are in device memory, as many as there is room for, and written in place, so that each token is the
same graph: nothing is compiled after the first tokens, and no token waits for the host. build/python (or
PREFIX/lib/python3/dist-packages) in PYTHONPATH. Exit codes: 0 ok, 1 a wrong call, 2 something differs."""
import argparse
import glob
import io
import math
import sys
import time

import torch
from torch import nn

import hpu_torch  # makes "hpu" a device
from hpu_torch import metrics
from hpu_torch.core import mark_step

PROMPT = "Everyone is permitted to copy and distribute "


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask, cache, at):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.project(x).chunk(3, -1))
        if cache:
            # Each position is written once, and was 0: adding in place is writing.
            k, v = cache[0].index_add_(2, at, k), cache[1].index_add_(2, at, v)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(mask, -math.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.attention, self.norm2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask, cache, at):
        x = x + self.attention(self.norm(x), mask, cache, at)
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Learned positions, norms before each part, and the embedding of characters is the head."""

    def __init__(self, characters, room, width=64, heads=4, layers=2):
        super().__init__()
        self.heads, self.width, self.room = heads, width, room
        self.characters, self.positions = nn.Embedding(characters, width), nn.Embedding(room, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)
        nn.init.normal_(self.characters.weight, std=.05)
        nn.init.normal_(self.positions.weight, std=.05)
        self.head.weight = self.characters.weight

    def empty_cache(self, device):
        shape = 1, self.heads, self.room, self.width // self.heads
        return [[torch.zeros(shape, device=device) for _ in "kv"] for _ in self.blocks]

    def forward(self, x, at, caches=None):
        """x: [batch, length], characters at the positions `at`, [length]. With caches: after what these hold."""
        keys = at if caches is None else torch.arange(self.room, device=x.device)
        mask = keys > at[:, None]
        x = self.characters(x) + self.positions(at)
        for index, block in enumerate(self.blocks):
            x = block(x, mask, caches[index] if caches else None, at)
        return self.head(self.norm(x))


def train(model, text, steps, length, device):
    """The losses of the first and the last tenth of the steps."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps + 1)
    at = torch.arange(length, device=device)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(text) - length - 1, (8, 1), generator=generator)
        piece = text[starts + torch.arange(length + 1)].to(device)
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(piece[:, :-1], at).flatten(0, 1), piece[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.)
        optimiser.step()
        schedule.step()
        mark_step()
        losses.append(loss.detach())
    losses = torch.stack(losses).cpu()
    part = max(1, steps // 10)
    return losses[:part].mean().item(), losses[-part:].mean().item()


@torch.inference_mode()
def generate(model, prompt, count, device, after=lambda: None):
    """`count` characters after the prompt. All of it stays on the device until the end."""
    caches = model.empty_cache(device)
    written = torch.zeros(count, dtype=torch.int64, device=device)
    number, one = torch.zeros(1, dtype=torch.int64, device=device), torch.ones(1, dtype=torch.int64, device=device)
    at = torch.tensor([len(prompt) - 1], device=device)
    next_one = model(prompt[None].to(device), torch.arange(len(prompt), device=device), caches)[0, -1:].argmax(-1)
    for _ in range(count):
        written.index_add_(0, number, next_one)
        number.add_(one)
        at.add_(one)
        next_one = model(next_one[None], at, caches)[0].argmax(-1)
        mark_step()
        after()
    return written.cpu()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="of training")
    parser.add_argument("--tokens", type=int, default=256, help="to generate")
    parser.add_argument("--eager", action="store_true", help="each op is a graph of its own")
    try:
        args = parser.parse_args()
    except SystemExit as stop:
        return 1 if stop.code else 0

    paths = sorted(glob.glob("/usr/share/common-licenses/*GPL*[0-9]"))
    if not paths:
        print("error: /usr/share/common-licenses has no texts to train on", file=sys.stderr)
        return 1
    raw = "".join(open(path, encoding="utf-8", errors="ignore").read() for path in paths)
    raw = " ".join(raw.split())
    alphabet = sorted(set(raw))
    encode = {character: number for number, character in enumerate(alphabet)}
    text = torch.tensor([encode[character] for character in raw])
    prompt = torch.tensor([encode[character] for character in PROMPT])

    torch.manual_seed(0)
    torch.hpu.set_lazy(not args.eager)
    model = Model(len(alphabet), len(prompt) + args.tokens + 1).to("hpu")
    metrics.reset()
    start = time.perf_counter()
    first, last = train(model, text, args.steps, min(64, model.room), "hpu")
    counts = metrics.counts()
    print(f"{len(text)} characters, {args.steps} steps in {time.perf_counter() - start:.0f} s: loss {first:.2f} -> {last:.2f}; "
          f"{counts['graphs']} graphs, {counts['compiles']} compiled")

    compiled = []
    start = time.perf_counter()
    tokens = generate(model.eval(), prompt, args.tokens, "hpu", lambda: compiled.append(metrics.counts()["compiles"]))
    took = time.perf_counter() - start
    print(PROMPT + "".join(alphabet[token] for token in tokens))
    print(f"{args.tokens / took:.0f} characters/s; {compiled[-1] - counts['compiles']} graphs compiled, {compiled[-1] - compiled[min(2, args.tokens - 1)]} after the third character")

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    copy = Model(len(alphabet), model.room)
    copy.load_state_dict(torch.load(file, map_location="cpu"))
    same = torch.equal(tokens, generate(copy.eval(), prompt, args.tokens, "cpu"))
    print("the CPU generates the same" if same else "the CPU generates other characters")
    return 0 if same and last < first and compiled[-1] == compiled[min(2, args.tokens - 1)] else 2


if __name__ == "__main__":
    sys.exit(main())
