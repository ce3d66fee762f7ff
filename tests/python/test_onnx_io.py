# SPDX-License-Identifier: Apache-2.0
"""Tests of the data set layout and the error metrics, against numbers worked out by hand."""

import math
import os
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import onnx_io  # noqa: E402


class ErrorMetrics(unittest.TestCase):
    def test_counts_all_outputs_together(self):
        expected = [np.array([3.0, 0.0]), np.array([[4.0]])]
        actual = [np.array([3.0, 1.0]), np.array([[2.0]])]
        metrics = onnx_io.error_metrics(actual, expected)
        self.assertEqual(metrics["max_abs"], 2.0)
        self.assertAlmostEqual(metrics["rms"], math.sqrt(5 / 3))
        self.assertAlmostEqual(metrics["rel_rms"], math.sqrt(5) / 5)

    def test_zero_reference_is_exact_or_infinitely_wrong(self):
        zero = [np.zeros(3)]
        self.assertEqual(onnx_io.error_metrics(zero, zero)["rel_rms"], 0.0)
        self.assertEqual(onnx_io.error_metrics([np.ones(3)], zero)["rel_rms"], math.inf)

    def test_nan_is_infinitely_wrong(self):
        self.assertEqual(onnx_io.error_metrics([np.array([np.nan])], [np.ones(1)])["rms"], math.inf)

    def test_other_shapes_and_counts_are_refused(self):
        with self.assertRaisesRegex(ValueError, "shape"):
            onnx_io.error_metrics([np.ones((2, 3))], [np.ones((3, 2))])
        with self.assertRaisesRegex(ValueError, "2 outputs, expected 1"):
            onnx_io.error_metrics([np.ones(1)] * 2, [np.ones(1)])


class DataSets(unittest.TestCase):
    def test_come_back_in_index_order_with_their_types(self):
        inputs = [(f"i{k}", np.full((2,), k, np.int64)) for k in range(11)]
        outputs = [("flag", np.array([True, False])), ("scalar", np.float32(2.5))]
        with tempfile.TemporaryDirectory() as folder:
            onnx_io.save_data_set(folder, inputs, outputs)
            read = onnx_io.load_data_set(folder, "input")
            self.assertEqual([int(array[0]) for array in read], list(range(11)))
            self.assertEqual(read[0].dtype, np.int64)
            flag, scalar = onnx_io.load_data_set(folder, "output")
            self.assertEqual(flag.dtype, np.bool_)
            self.assertEqual((scalar.shape, float(scalar)), ((), 2.5))


if __name__ == "__main__":
    unittest.main()
