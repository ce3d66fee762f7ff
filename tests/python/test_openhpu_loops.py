# SPDX-License-Identifier: Apache-2.0
"""Loops whose number of iterations is a free dimension: of a tensor, or the value of an input."""
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from openhpu_cases import openhpu

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RANDOM = np.random.default_rng(3)


def info(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, constants=()):
    """y = v + x, so many times; rows: each of them."""
    body = helper.make_graph(
        [helper.make_node("Add", ["w", "x"], ["w2"]), helper.make_node("Identity", ["w2"], ["row"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body", [info("i", INT64, []), info("c", BOOL, []), info("w", FLOAT, [3, 4])],
        [info("c2", BOOL, []), info("w2", FLOAT, [3, 4]), info("row", FLOAT, [3, 4])])
    loop = helper.make_node("Loop", ["n", "", "v"], ["y", "rows"], body=body)
    graph = helper.make_graph([*nodes, loop], "g", [info("x", FLOAT, [3, 4]), info("v", FLOAT, [3, 4]), *inputs], [info("y"), info("rows")],
                              [numpy_helper.from_array(np.array(v), n) for n, v in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def expected(x, v, count):
    rows = []
    for _ in range(count):
        v = v + x
        rows.append(v)
    return v, np.array(rows, np.float32).reshape(count, 3, 4)


class Loops(unittest.TestCase):
    def check(self, recipe, count, **more):
        x, v = (RANDOM.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
        with openhpu.Session(recipe) as session:
            given = session.run({"x": x, "v": v, **more})
        for name, want in zip(("y", "rows"), expected(x, v, count)):
            self.assertEqual(given[name].shape, want.shape)
            np.testing.assert_allclose(given[name], want, rtol=1e-6)

    def test_as_many_as_a_dimension(self):
        model = model_of([helper.make_node("Shape", ["s"], ["sizes"]), helper.make_node("Gather", ["sizes", "zero"], ["n"])],
                         [info("s", FLOAT, ["T"])], [("zero", 0)])
        recipe = openhpu.compile(model, cache="", dims={"T": (0, 6)})
        for count in (1, 3, 6, 0):
            self.check(recipe, count, s=np.zeros(count, np.float32))
        self.assertRaisesRegex(openhpu.Error, "may be more than 4096 times.*T", openhpu.compile, model, cache="")

    def test_as_many_as_an_input_says(self):
        model = model_of([], [info("n", INT64, [])])
        recipe = openhpu.compile(model, cache="", dims={"n": (0, 6)})
        for count in (1, 5, 6, 0):
            self.check(recipe, count, n=np.array(count))


if __name__ == "__main__":
    unittest.main()
