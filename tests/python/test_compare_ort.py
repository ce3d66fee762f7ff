# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/compare_ort.py with stand-in programs: order, ratios, gate, exit codes."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "benchmarks"))
import compare_ort  # noqa: E402
import stand_ins  # noqa: E402


def latency(p50, least):
    return {"stdout": {"host_latency_ms": {"p50": p50, "p90": p50, "p99": p50, "min": least},
                       "device_time_us": 5.0}}


class CompareOrt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-compare-ort-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = os.path.join(self.folder, "bin")
        model = os.path.join(self.folder, "models", "m-opset13")
        os.makedirs(os.path.join(model, "test_data_set_0"))
        with open(os.path.join(model, "model.onnx"), "wb"):
            pass
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = self.bin + os.pathsep + path  # `node` is a stand-in too

    def run_script(self, plan, *arguments):
        stand_ins.install(self.bin, plan)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = compare_ort.main([os.path.join(self.folder, "models"), "--build", self.folder,
                                     "--rounds", "3", "--json", *arguments])
        return code, json.loads(out.getvalue()) if out.getvalue() else err.getvalue()

    def test_rounds_alternate_and_ratios_are_per_round(self):
        code, report = self.run_script({
            "hpu-run": [latency(10, 8), latency(30, 9), latency(12, 10)],
            "node": [latency(10, 10), latency(20, 4), latency(10, 10)]})
        self.assertEqual(code, 0)
        order = [call[0] for call in stand_ins.calls(self.bin)]
        self.assertEqual(order, ["hpu-run", "node", "node", "hpu-run", "hpu-run", "node"])
        result = report["models"]["m-opset13"]
        self.assertEqual(result["ratio"], {"min": 1.0, "median": 1.2, "max": 1.5})
        self.assertEqual(result["ratio_of_minima"], 2.0)
        self.assertIn("cpu", report["machine"])

    def test_both_programs_get_the_same_settings(self):
        self.run_script({"hpu-run": latency(1, 1), "node": latency(1, 1)}, "--threads", "1",
                        "--hpu-option=--precision=bf16")
        hpu, ort = stand_ins.calls(self.bin)[:2]
        for call in (hpu, ort):
            for name, value in (("--threads", "1"), ("--iters", "20"), ("--warmup", "3")):
                self.assertEqual(call[call.index(name) + 1], value)
        self.assertIn("--precision=bf16", hpu)
        self.assertNotIn("--precision=bf16", ort)

    def test_gate_is_a_regression(self):
        plan = {"hpu-run": latency(13, 13), "node": latency(10, 10)}
        self.assertEqual(self.run_script(plan, "--gate", "1.4")[0], 0)
        self.assertEqual(self.run_script(plan, "--gate", "1.2")[0], 2)

    def test_failing_program_is_named_with_its_reason(self):
        code, report = self.run_script({
            "hpu-run": {"stdout": "", "code": 1, "stderr": "error: no such op\n"},
            "node": latency(10, 10)})
        self.assertEqual(code, 3)
        self.assertIn("no such op", report["models"]["m-opset13"]["error"])

    def test_no_models_is_a_user_error(self):
        shutil.rmtree(os.path.join(self.folder, "models", "m-opset13"))
        code, message = self.run_script({"hpu-run": latency(1, 1), "node": latency(1, 1)})
        self.assertEqual(code, 1)
        self.assertIn("export_models.py", message)


if __name__ == "__main__":
    unittest.main()
