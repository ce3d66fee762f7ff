# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/device_time.py with a stand-in compiler: ratios, means, gates, exit codes."""

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
import device_time  # noqa: E402
import stand_ins  # noqa: E402


def compiled(device, mme, tpc, hbm, busy=50.0):
    """What hpu-compile --json prints, as far as it matters here."""
    engine = {"busy_us": device * busy / 100, "busy_percent": busy, "hbm_bytes": 500, "terms_us": {}}
    op = {"name": "conv1", "engine": "mme", "slices": 2, "busy_us": 1.0, "critical_us": 1.0,
          "terms_us": {"ideal": 0.5, "overhead": 0.5}, "nodes": ["conv1"]}
    return {"stdout": {
        "device_time_us": device, "lower_bound_us": max(mme, tpc, hbm), "lower_bound_bytes": 1000,
        "lower_bound_parts_us": {"mme": mme, "tpc": tpc, "hbm": hbm},
        "engines": {"mme": engine, "tpc": engine, "dma": None},
        "critical_path_us": {"mme": {"ideal": device * 0.75, "overhead": 0.0},
                             "tpc": {"ideal": device * 0.25}, "gaps": 0.0},
        "slowest_ops": [op], "workspace_bytes": 10, "largest_live_set_bytes": 10}}


class DeviceTime(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-device-time-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = os.path.join(self.folder, "bin")
        for name in ("one-opset17", "two-b8-opset17"):
            os.makedirs(os.path.join(self.folder, "models", name))
            with open(os.path.join(self.folder, "models", name, "model.onnx"), "wb"):
                pass

    def run_script(self, plan, *arguments):
        stand_ins.install(self.bin, {"hpu-compile": plan})
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = device_time.main([os.path.join(self.folder, "models"), "--build", self.folder, *arguments])
        return code, out.getvalue(), err.getvalue()

    def report(self, plan, *arguments):
        code, out, err = self.run_script(plan, "--json", *arguments)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_ratios_and_means_are_by_batch_and_precision(self):
        # f32: one (O2, O0), two (O2, O0); then bf16.
        plan = [compiled(10, 5, 1, 1), compiled(30, 5, 1, 1), compiled(8, 2, 4, 1), compiled(8, 2, 4, 1),
                compiled(9, 1, 1, 3), compiled(9, 1, 1, 3), compiled(16, 4, 1, 1), compiled(32, 4, 1, 1)]
        report = self.report(plan)
        rows = {(r["model"], r["precision"]): r for r in report["rows"]}
        one, two = rows["one-opset17", "f32"], rows["two-b8-opset17", "f32"]
        self.assertEqual((one["batch"], one["over_bound"], one["o0_over_o2"], one["bounded_by"]), (1, 2, 3, "mme"))
        self.assertEqual((two["batch"], two["over_bound"], two["bounded_by"]), (8, 2, "tpc"))
        # Two engines moved 500 bytes each of 1000 that must be moved: HBM is busy 3 of 9 us.
        self.assertAlmostEqual(rows["one-opset17", "bf16"]["bounding_busy_percent"], 100 / 3)
        means = {(m["batch"], m["precision"]): m for m in report["geomeans"]}
        self.assertEqual(set(means), {(1, "f32"), (8, "f32"), (1, "bf16"), (8, "bf16")})
        self.assertAlmostEqual(means[8, "bf16"]["over_bound"], 4)
        self.assertAlmostEqual(means[8, "bf16"]["busiest_over_bound"], 2)  # Busy half of the time.
        self.assertAlmostEqual(means[8, "bf16"]["o0_over_o2"], 2)
        options = [call[call.index("-o") + 2:] for call in stand_ins.calls(self.bin)]
        self.assertIn("-O2", options[0])
        self.assertIn("-O0", options[1])

    def test_the_critical_path_adds_up_and_is_sorted(self):
        row = self.report(compiled(10, 5, 1, 1), "--precision", "f32", "--no-o0")["rows"][0]
        self.assertEqual(list(row["critical_path_us"].items()), [("mme work", 7.5), ("tpc work", 2.5)])
        self.assertNotIn("o0_over_o2", row)

    def test_the_gates_fail(self):
        plan = compiled(10, 5, 1, 1)
        for arguments, code in ((["--gate", "2.1"], 0), (["--gate", "1.9"], 2),
                                (["--gate", "1.9", "--gate-batch", "8"], 2), (["--gate", "1.9", "--gate-batch", "3"], 1),
                                (["--busy-gate", "49"], 0), (["--busy-gate", "51"], 2)):
            self.assertEqual(self.run_script(plan, "--no-o0", *arguments)[0], code, arguments)

    def test_the_table_has_every_model_and_its_reasons(self):
        code, out, _ = self.run_script(compiled(10, 5, 1, 1), "--details", "3")
        self.assertEqual(code, 0)
        self.assertEqual(out.count("| one-opset17 |"), 2)
        self.assertIn("mme work 75%, tpc work 25%", out)
        self.assertIn("overhead 50%", out)

    def test_a_failed_compilation_is_a_row_and_exit_code_3(self):
        code, out, _ = self.run_script({"stdout": "", "stderr": "error: no such op", "code": 1}, "--no-o0")
        self.assertEqual(code, 3)
        self.assertIn("no such op", out)

    def test_user_errors_are_exit_code_1(self):
        self.assertEqual(self.run_script(compiled(1, 1, 1, 1), "--precision", "")[0], 1)
        empty = os.path.join(self.folder, "empty")
        os.makedirs(empty)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(device_time.main([empty]), 1)
            self.assertEqual(device_time.main([os.path.join(self.folder, "none")]), 1)


if __name__ == "__main__":
    unittest.main()
