#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Exports layers of published sizes, for modelled device time only: weights are random, nothing is run.

    tests/models/export_workloads.py --out /tmp/workloads [--only llama2_7b-2048]
    benchmarks/device_time.py /tmp/workloads --precision bf16 --no-o0

Each becomes DIR/<name>/model.onnx with its weights beside it (external data: some hundred megabytes a LLaMA layer).
A folder that is there is left alone.
"""

import argparse
import os
import shutil
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import onnx  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import nets_sequence  # noqa: E402


def causal(length):
    return torch.full((length, length), torch.finfo(torch.float32).min).triu(1)


class LlamaLayer(nn.Module):
    """One block: hidden [batch, length, width] and positions in, hidden out; with a cache, keys and values, too."""

    def __init__(self, width, heads, kv_heads, inner, head_width=128):
        super().__init__()
        self.block = nets_sequence.LlamaBlock(width, heads, kv_heads, inner)
        # A part of a layer has fewer heads than its width says.
        if heads * head_width != width:
            own = heads * head_width
            self.block.head_width = head_width
            self.block.query = nn.Linear(width, own, bias=False)
            self.block.key = nn.Linear(width, kv_heads * head_width, bias=False)
            self.block.value = nn.Linear(width, kv_heads * head_width, bias=False)
            self.block.projection = nn.Linear(own, width, bias=False)
        powers = torch.arange(0, head_width, 2).float() / head_width
        self.register_buffer("frequencies", 1.0 / 10000.0 ** powers)

    def angles(self, positions):
        angle = positions[..., None].float() * self.frequencies
        angle = torch.cat((angle, angle), dim=-1)[:, None]
        return angle.cos(), angle.sin()

    def forward(self, hidden, positions):
        cosine, sine = self.angles(positions)
        return self.block(hidden, cosine, sine, causal(hidden.shape[1]), None)[0]


class LlamaStep(LlamaLayer):
    """One token a sequence, behind `past` cached ones; the caches grow by it."""

    def forward(self, hidden, positions, past_key, past_value):
        cosine, sine = self.angles(positions)
        return self.block(hidden, cosine, sine, None, (past_key, past_value))


class BertLayer(nn.Module):
    """A post-norm encoder layer with a mask of padding."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.query, self.key, self.value, self.projection = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, hidden, mask):
        batch, length, width = hidden.shape
        query, key, value = (linear(hidden).view(batch, length, self.heads, self.head_width).transpose(1, 2)
                             for linear in (self.query, self.key, self.value))
        scores = query @ key.transpose(2, 3) / self.head_width ** 0.5 + (1.0 - mask[:, None, None]) * -10000.0
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, length, width)
        hidden = self.norm1(hidden + self.projection(mixed))
        return self.norm2(hidden + self.down(nn.functional.gelu(self.up(hidden))))


class Attention(nn.Module):
    """Causal attention alone: queries, keys and values [batch, heads, length, width]."""

    def forward(self, query, key, value):
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5 + causal(query.shape[2])
        return torch.softmax(scores, -1) @ value


class DiffusionBlock(nn.Module):
    """A stage of Stable Diffusion's UNet: a residual block with the step's embedding, then a transformer block that
    attends to itself and to the text."""

    def __init__(self, channels, heads, text_width, step_width=1280):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(32, channels, eps=eps) for eps in (1e-5, 1e-5, 1e-6))
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.step = nn.Linear(step_width, channels)
        self.enter, self.leave = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.own = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(3))
        self.across = nn.ModuleList(nn.Linear(size, channels, bias=False) for size in (channels, text_width, text_width))
        self.out = nn.ModuleList(nn.Linear(channels, channels) for _ in range(2))
        self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def attend(self, linears, out, x, memory):
        batch, length, width = x.shape
        query, key, value = (linear(y).view(batch, -1, self.heads, width // self.heads).transpose(1, 2)
                             for linear, y in zip(linears, (x, memory, memory)))
        weights = torch.softmax(query @ key.transpose(2, 3) / (width // self.heads) ** 0.5, -1)
        return out((weights @ value).transpose(1, 2).reshape(batch, length, width))

    def forward(self, image, step, text):
        silu = nn.functional.silu
        hidden = self.conv1(silu(self.norm1(image))) + self.step(silu(step))[:, :, None, None]
        image = image + self.conv2(silu(self.norm2(hidden)))
        batch, channels, height, width = image.shape
        x = self.enter(self.norm3(image)).permute(0, 2, 3, 1).reshape(batch, height * width, channels)
        y = self.norms[0](x)
        x = x + self.attend(self.own, self.out[0], y, y)
        x = x + self.attend(self.across, self.out[1], self.norms[1](x), text)
        value, gate = self.up(self.norms[2](x)).chunk(2, dim=-1)
        x = x + self.down(value * nn.functional.gelu(gate))
        return image + self.leave(x.reshape(batch, height, width, channels).permute(0, 3, 1, 2))


def tokens(batch, length, width):
    return {"hidden": torch.randn(batch, length, width), "positions": torch.arange(length)[None].repeat(batch, 1)}


def cached(batch, past, width, kv_heads):
    inputs = {"hidden": torch.randn(batch, 1, width), "positions": torch.full((batch, 1), past)}
    return {**inputs, **{f"past_{kind}": torch.randn(batch, kv_heads, past, 128) for kind in ("key", "value")}}


def llama_7b(kind=LlamaLayer):
    return kind(4096, 32, 32, 11008)


WORKLOADS = {
    "llama2_7b-2048": (llama_7b, lambda: tokens(1, 2048, 4096), ["out"]),
    "llama2_7b-128": (llama_7b, lambda: tokens(1, 128, 4096), ["out"]),
    **{f"llama2_7b_step-b{batch}": (lambda: llama_7b(LlamaStep), lambda batch=batch: cached(batch, 2047, 4096, 32),
                                    ["out", "present_key", "present_value"]) for batch in (1, 16, 64)},
    # An eighth of a layer of 70 billion parameters: 8 of 64 heads, one of 8 of keys and values. The sums over eight
    # devices behind both halves are not in it.
    "llama2_70b_eighth-2048": (lambda: LlamaLayer(8192, 8, 1, 28672 // 8), lambda: tokens(1, 2048, 8192), ["out"]),
    "attention-8192": (Attention, lambda: {name: torch.randn(1, 1, 8192, 128) for name in ("query", "key", "value")}, ["out"]),
    "bert_large-b8s384": (lambda: BertLayer(1024, 16, 4096),
                          lambda: {"hidden": torch.randn(8, 384, 1024), "mask": torch.ones(8, 384)}, ["out"]),
    "diffusion-320x64": (lambda: DiffusionBlock(320, 8, 768),
                         lambda: {"image": torch.randn(2, 320, 64, 64), "step": torch.randn(2, 1280),
                                  "text": torch.randn(2, 77, 768)}, ["out"]),
}


def export(name, folder):
    build, example, outputs = WORKLOADS[name]
    torch.manual_seed(0)
    with torch.no_grad():
        module, inputs = build().eval(), example()
    work = folder + ".part"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    path = os.path.join(work, "model.onnx")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, tuple(inputs.values()), path, opset_version=17, input_names=list(inputs), output_names=outputs)
    model = onnx.load(path)
    shutil.rmtree(work)
    os.makedirs(work)
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=1024)
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(work, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="DIR")
    parser.add_argument("--only", action="append", choices=list(WORKLOADS), help="default: all")
    args = parser.parse_args()
    for name in args.only or WORKLOADS:
        folder = os.path.join(args.out, name)
        if not os.path.exists(os.path.join(folder, "model.onnx")):
            export(name, folder)
        print(folder, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
