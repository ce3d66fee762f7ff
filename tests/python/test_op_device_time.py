# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/op_device_time.py with a stand-in compiler: ratios, gates, exit codes; and its own models."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

import onnx

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "benchmarks"))
import op_device_time  # noqa: E402
import stand_ins  # noqa: E402

SCATTER, LSTM = "scatter_nd 100000x64", "lstm 64x32 256"


class OpDeviceTime(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-op-device-time-")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_script(self, times, *arguments):
        """The exit code, the rows and stderr; `times` are those of the empty op and of each compilation in turn."""
        plan = [{"stdout": {"device_time_us": time}} if time else {"stdout": "", "stderr": "no\n", "code": 3} for time in times]
        shutil.rmtree(os.path.join(self.folder, "bin"), ignore_errors=True)  # It counts the calls.
        stand_ins.install(os.path.join(self.folder, "bin"), {"hpu-compile": plan})
        rows, err = os.path.join(self.folder, "rows.json"), io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            code = op_device_time.main(["--build", self.folder, "--output", rows, *arguments])
        if not os.path.exists(rows):
            return code, None, err.getvalue()
        with open(rows, encoding="utf-8") as file:
            return code, json.load(file)["rows"], err.getvalue()

    def test_a_mover_is_divided_by_its_bytes_and_the_empty_op(self):
        code, rows, err = self.run_script([1.0, 100.0], SCATTER)
        self.assertEqual(code, 0, err)
        moved = 4 * (2 * 100000 * 64 + 20000 * 64) + 8 * 20000
        self.assertAlmostEqual(rows[0]["ratio"], 100.0 / (moved / 2450.0 / 1000 + 1.0))

    def test_a_recurrence_is_divided_by_its_products(self):
        code, rows, err = self.run_script([1.0, 12.0, 10.0], LSTM)
        self.assertEqual(code, 0, err)
        self.assertAlmostEqual(rows[0]["ratio"], 1.2)

    def test_the_gate_fails_above_the_limit_only(self):
        self.assertEqual(self.run_script([1.0, 40.0], SCATTER, "--gate")[0], 0)
        self.assertEqual(self.run_script([1.0, 400.0], SCATTER, "--gate")[0], 2)
        self.assertEqual(self.run_script([1.0, 400.0], SCATTER)[0], 0)

    def test_a_failed_compilation_and_an_unknown_case_are_said(self):
        code, rows, err = self.run_script([1.0, None], SCATTER)
        self.assertEqual((code, rows), (3, None))
        self.assertIn("exit code 3: no", err)
        code, _, err = self.run_script([1.0], "sort")
        self.assertEqual(code, 1)
        self.assertIn("no case 'sort'", err)

    def test_the_known_ones_are_cases(self):
        self.assertLessEqual(set(op_device_time.KNOWN), set(op_device_time.CASES))

    def test_the_models_are_valid(self):
        for name in (SCATTER, "top_k 64x4096 k=8", "suppression 1x1000", "gru 64x32 256"):
            made, other = op_device_time.CASES[name][1]()
            for model in (made, other) if isinstance(other, onnx.ModelProto) else (made,):
                onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


if __name__ == "__main__":
    unittest.main()
