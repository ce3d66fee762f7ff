# SPDX-License-Identifier: Apache-2.0
"""A decoder with caches of a fixed size, as PyTorch exports it: the launches write the new rows, and nothing else."""

import json
import os
import tempfile
import unittest
import warnings

import numpy as np
import torch
from torch import nn

from openhpu_cases import openhpu

VOCABULARY, WIDTH, HEADS, LAYERS, MOST = 211, 32, 2, 2, 96
DEPTH = WIDTH // HEADS
PROMPT = [3, 141, 59, 26, 53]


def copied(cache, positions, rows):
    return cache.index_copy(2, positions, rows)


def assigned(cache, positions, rows):
    cache[:, :, positions] = rows
    return cache


def scattered(cache, positions, rows):
    return cache.scatter(2, positions.view(1, 1, -1, 1).expand_as(rows), rows)


class Decoder(nn.Module):
    """One block a layer, over a cache in which `store` puts the rows of new tokens where `positions` says."""

    def __init__(self, store):
        super().__init__()
        torch.manual_seed(11)
        self.store = store
        self.token, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(MOST, WIDTH)
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.norm = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(LAYERS))

    def forward(self, tokens, positions, *caches):
        batch, length = tokens.shape
        x = self.token(tokens) + self.place(positions)
        seen = torch.arange(caches[0].shape[2])[None] <= positions[:, None]
        after = []
        for layer in range(LAYERS):
            query, key, value = (part.view(batch, length, HEADS, DEPTH).transpose(1, 2)
                                 for part in self.qkv[layer](self.norm[layer](x)).split(WIDTH, 2))
            key = self.store(caches[2 * layer], positions, key)
            value = self.store(caches[2 * layer + 1], positions, value)
            scores = (query @ key.transpose(-1, -2) / DEPTH ** 0.5).masked_fill(~seen, -1e9)
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, WIDTH)
            x = x + torch.tanh(self.out[layer](mixed))
            after += [key, value]
        return (x @ self.token.weight.T, *after)


PASTS = [f"past_{name}_{layer}" for layer in range(LAYERS) for name in ("key", "value")]


def export(store):
    module = Decoder(store).eval()
    caches = [torch.zeros(2, HEADS, MOST, DEPTH) for _ in PASTS]
    axes = {"tokens": {0: "batch", 1: "seq"}, "positions": {0: "seq"}, **{name: {0: "batch", 2: "cap"} for name in PASTS}}
    with tempfile.TemporaryDirectory() as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(work, "model.onnx")
        torch.onnx.export(module, (torch.zeros(2, 3, dtype=torch.int64), torch.arange(3), *caches), path, opset_version=17,
                          input_names=["tokens", "positions", *PASTS], dynamic_axes=axes,
                          output_names=["logits", *(name.replace("past", "present") for name in PASTS)])
        with open(path, "rb") as file:
            return module, file.read()


def steps(count):
    """The tokens' positions of a prompt and of `count` tokens."""
    yield np.arange(len(PROMPT))
    for index in range(count):
        yield np.array([len(PROMPT) + index])


def generate(module, count):
    caches = [torch.zeros(1, HEADS, MOST, DEPTH) for _ in PASTS]
    given, tokens = torch.tensor([PROMPT]), []
    with torch.no_grad():
        for positions in steps(count):
            logits, *caches = module(given, torch.from_numpy(positions), *caches)
            given = logits[:, -1].argmax(-1)[:, None]
            tokens.append(int(given))
    return tokens, [cache.numpy() for cache in caches]


class StaticCaches(unittest.TestCase):
    def compile(self, data, **options):
        recipe = openhpu.compile(data, cache="", states={"present_*": "past_*"}, reports="layout", **options)
        lines = [line for line in recipe.report["reports"]["layout"].splitlines() if line.startswith("state")]
        self.assertEqual(lines, [f"state    {name} is updated in place" for name in PASTS])
        return recipe

    def test_tokens_are_those_of_pytorch(self):
        for store in (copied, assigned, scattered):
            module, data = export(store)
            wanted, caches = generate(module, 40)
            for dims in ({"batch": (1, 4), "seq": (1, 16), "cap": (8, MOST)}, {"batch": 1, "seq": (1, 16), "cap": MOST}):
                recipe = self.compile(data, dims=dims)
                with self.subTest(store=store.__name__, dims=dims), openhpu.Session(recipe) as session:
                    state = session.state(**{name: MOST if name == "cap" else 1 for name in ("batch", "cap")
                                             if name in recipe.dims})
                    given, tokens = np.array([PROMPT]), []
                    for positions in steps(40):
                        logits = session.run({"tokens": given, "positions": positions}, state=state)["logits"]
                        given = logits[:, -1].argmax(-1)[:, None]
                        tokens.append(int(given[0, 0]))
                    self.assertEqual(tokens, wanted)
                    for name, cache in zip(PASTS, caches):
                        np.testing.assert_allclose(state.numpy(name), cache, rtol=1e-3, atol=1e-4)

    def moved(self, data, cap, **options):
        """Bytes of HBM that the nodes which store rows move in a step, from the device's trace."""
        recipe = self.compile(data, dims={"batch": 1, "seq": 1, "cap": cap}, **options)
        with openhpu.Session(recipe) as session, tempfile.TemporaryDirectory() as work:
            state = session.state()
            path = os.path.join(work, "trace.json")
            with openhpu.trace(path):
                session.run({"tokens": np.array([[7]]), "positions": np.array([4])}, state=state)
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            stores = [event for event in events if "Scatter" in event["name"] and "hbm_bytes" in event.get("args", {})]
            copies = [event for event in events if event.get("cat") == "dma"]
            self.assertEqual(len(stores), 2 * LAYERS)
            self.assertEqual(copies, [])
            return sum(event["args"]["hbm_bytes"] for event in stores)

    def test_only_new_rows_are_written(self):
        _, data = export(copied)
        for precision, size in (("f32", 4), ("bf16", 2)):
            moved = {cap: self.moved(data, cap, precision=precision) for cap in (64, 512, 4096)}
            with self.subTest(precision=precision):
                self.assertEqual(len(set(moved.values())), 1, moved)
                self.assertLess(moved[4096] * 50, len(PASTS) * HEADS * 4096 * DEPTH * size)


if __name__ == "__main__":
    unittest.main()
