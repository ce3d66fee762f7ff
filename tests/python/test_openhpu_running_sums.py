# SPDX-License-Identifier: Apache-2.0
"""CumSum along axes of many elements, beside numpy."""

import unittest

import numpy as np
from onnx import helper, numpy_helper

from openhpu_cases import openhpu

RANDOM = np.random.default_rng(13)


class RunningSums(unittest.TestCase):
    """Integers wrap around, and what is no number reaches what is behind it alone."""

    def check(self, x, axis, exclusive, reverse):
        kind = helper.mapping.NP_TYPE_TO_TENSOR_TYPE[x.dtype]
        node = helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, x.shape)],
                                  [helper.make_empty_tensor_value_info("y")],
                                  [numpy_helper.from_array(np.array(axis, np.int64), "axis")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with openhpu.Session(openhpu.compile(model, cache="")) as session, np.errstate(all="ignore"):
            got = session.run({"x": x})["y"]
        wide = x.astype(np.float64) if x.dtype.kind == "f" else x
        sums = np.cumsum(np.flip(wide, axis) if reverse else wide, axis=axis, dtype=wide.dtype)
        if exclusive:
            sums = np.concatenate([np.zeros_like(sums.take([0], axis)), sums.take(range(x.shape[axis] - 1), axis)], axis)
        expected = (np.flip(sums, axis) if reverse else sums).astype(x.dtype)
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
        if x.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
        else:
            np.testing.assert_array_equal(got, expected)

    def test_all_forms(self):
        for exclusive in (0, 1):
            for reverse in (0, 1):
                for dtype in ("int32", "int64", "uint32", "uint64"):
                    most = np.iinfo(dtype)
                    for shape, axis in (((5000,), 0), ((3, 130), 1), ((65, 3), -2), ((2, 64, 40), 1)):
                        with self.subTest(dtype=dtype, shape=shape, exclusive=exclusive, reverse=reverse):
                            some = RANDOM.integers(most.min, most.max, shape, dtype=dtype, endpoint=True)
                            self.check(some, axis, exclusive, reverse)
                x = RANDOM.standard_normal((2, 70000)).astype(np.float32)
                x[0, 300], x[0, 9000], x[1, 200] = np.inf, np.nan, -np.inf
                with np.errstate(all="ignore"):
                    self.check(x, 1, exclusive, reverse)

    def test_eight_dimensions(self):
        self.check(RANDOM.integers(-9, 9, (2, 1, 2, 70, 1, 2, 1, 2)), 3, 0, 1)


if __name__ == "__main__":
    unittest.main()
