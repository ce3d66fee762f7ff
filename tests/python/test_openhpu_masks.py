# SPDX-License-Identifier: Apache-2.0
"""Attentions with masks that are constants, of which what is hidden is not computed, beside numpy: causal ones and windows, rows
that are masked as a whole, masks of batches and heads, other finite numbers, odd sizes."""

import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from openhpu_cases import openhpu

RANDOM = np.random.default_rng(3)


def attention(q, k, v, masks, scale):
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.matmul(q, np.swapaxes(k, -1, -2)).astype(np.float32) * np.float32(scale)
        for mask in masks:
            scores = scores + mask
        e = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
        return np.matmul(e / e.sum(-1, keepdims=True), v)


def hidden(shape, low, where):
    mask = np.zeros(shape, np.float32)
    mask[where] = low
    return mask


def causal(rows, keys, low=-np.inf, window=None):
    row, key = np.arange(rows)[:, None] + keys - rows, np.arange(keys)[None]
    return hidden((rows, keys), low, (key > row) | ((key <= row - window) if window else False))


class Masks(unittest.TestCase):
    def check(self, batch, rows, keys, *masks, depth=16, computed=()):
        """`computed`: masks that are inputs."""
        q, k, v = (RANDOM.standard_normal((*batch, size, depth)).astype(np.float32) for size in (rows, keys, keys))
        nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[*range(len(batch)), len(batch) + 1, len(batch)]),
                 helper.make_node("MatMul", ["q", "kt"], ["scores"]), helper.make_node("Mul", ["scores", "scale"], ["x0"])]
        constants = [numpy_helper.from_array(np.float32(0.3), "scale")]
        given, feed = [("q", q), ("k", k), ("v", v)], {}
        for i, mask in enumerate((*masks, *computed)):
            if i < len(masks):
                constants.append(numpy_helper.from_array(mask, f"m{i}"))
            else:
                given.append((f"m{i}", mask))
            nodes.append(helper.make_node("Add", [f"x{i}", f"m{i}"], [f"x{i + 1}"]))
        nodes += [helper.make_node("Softmax", [f"x{len(masks) + len(computed)}"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in given]
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        feed = dict(given)
        expected = attention(q, k, v, (*masks, *computed), 0.3)
        for level in (0, 2):
            recipe = openhpu.compile(model, cache="", opt_level=level)
            with openhpu.Session(recipe) as session:
                np.testing.assert_allclose(session.run(feed)["y"], expected, rtol=2e-5, atol=2e-5, err_msg=f"-O{level}")

    def test_causal(self):
        for rows, keys in ((512, 512), (300, 700), (1000, 1000), (257, 257)):
            for low in (-np.inf, float(np.finfo(np.float32).min), -1e30):
                with self.subTest(rows=rows, keys=keys, low=low):
                    self.check((2, 8), rows, keys, causal(rows, keys, low))

    def test_windows(self):
        self.check((1, 8), 1024, 1024, causal(1024, 1024, window=100))
        self.check((8,), 1024, 1024, causal(1024, 1024, -1e35, window=1))

    def test_a_number_that_absorbs_not_all(self):
        self.check((2, 4), 512, 512, causal(512, 512, -1e4))

    def test_rows_that_are_masked_as_a_whole(self):
        mask = causal(512, 512, float(np.finfo(np.float32).min))
        mask[5] = mask[300] = mask[511] = np.finfo(np.float32).min
        self.check((2, 8), 512, 512, mask)

    def test_masks_of_a_batch_and_of_heads(self):
        masks = np.stack([causal(512, 512, window=window) for window in (10, 200, None, 300)])
        self.check((3, 4), 512, 512, masks)
        self.check((4, 3), 512, 512, masks[:, None])
        self.check((3, 4), 512, 600, hidden((1, 1, 1, 600), -np.inf, np.s_[..., 128:]))

    def test_biases_and_other_masks_beside_it(self):
        bias = RANDOM.standard_normal((8, 512, 512)).astype(np.float32)
        self.check((2, 8), 512, 512, bias, causal(512, 512))
        # Both hide something: together they may hide a row.
        padding = hidden((2, 1, 1, 512), float(np.finfo(np.float32).min), np.s_[0, ..., :400])
        low = causal(512, 512, float(np.finfo(np.float32).min))
        self.check((2, 8), 512, 512, low, padding)
        self.check((2, 8), 512, 512, low, computed=(padding,))


if __name__ == "__main__":
    unittest.main()
