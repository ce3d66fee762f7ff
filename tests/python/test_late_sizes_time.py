# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/late_sizes_time.py with a stand-in compiler: ratios, buckets, gates, exit codes."""

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
import late_sizes_time  # noqa: E402
import stand_ins  # noqa: E402


def compiled(milliseconds, size=1000):
    return {"stdout": {"compile_ms": milliseconds, "recipe_bytes": size}}


class LateSizesTime(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-late-sizes-time-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = os.path.join(self.folder, "bin")
        for name, dims in (("fixed-opset17", []), ("net-opset17-dynseq", ["batch", "seq"])):
            os.makedirs(os.path.join(self.folder, "models", name))
            with open(os.path.join(self.folder, "models", name, "model.onnx"), "wb"):
                pass
            with open(os.path.join(self.folder, "models", name, "export.json"), "w", encoding="utf-8") as file:
                json.dump({"free_dims": dims}, file)

    def run_script(self, plan, *arguments):
        stand_ins.install(self.bin, {"hpu-compile": plan})
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = late_sizes_time.main([os.path.join(self.folder, "models"), "--build", self.folder, *arguments])
        return code, out.getvalue(), err.getvalue()

    def dims(self):
        return [[value for option, value in zip(call, call[1:]) if option == "--dim"] for call in stand_ins.calls(self.bin)]

    def test_rounds_alternate_and_buckets_are_counted(self):
        # Late, one; one, late; the least bucket, the largest.
        plan = [compiled(150, 1100), compiled(100), compiled(100), compiled(130, 1100), compiled(40, 900), compiled(100)]
        code, out, err = self.run_script(plan, "--rounds", "2", "--json")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.dims(), [["batch=1:8", "seq=1:128"], ["batch=8", "seq=128"], ["batch=8", "seq=128"],
                                       ["batch=1:8", "seq=1:128"], ["batch=1", "seq=1"], ["batch=8", "seq=128"]])
        result = json.loads(out)["models"]
        self.assertEqual(list(result), ["net-opset17-dynseq"])  # The other has no free dimension.
        result = result["net-opset17-dynseq"]
        self.assertEqual(result["ratio"], {"min": 1.3, "median": 1.4, "max": 1.5})
        self.assertEqual(result["buckets"], {"count": 32, "measured": 2, "ms": 70 * 32, "bytes": 950 * 32})

    def test_every_bucket_when_asked(self):
        code, _, err = self.run_script([compiled(10)], "--rounds", "1", "--dim", "seq=1:6", "--all-buckets")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.dims(), [["seq=1:6"], ["seq=6"], ["seq=1"], ["seq=2"], ["seq=4"], ["seq=6"]])

    def test_the_gate_is_on_the_median(self):
        plan = [compiled(150), compiled(100), compiled(100), compiled(100)]
        code, _, err = self.run_script(plan * 2, "--rounds", "1", "--gate", "1.4")
        self.assertEqual(code, 2)
        self.assertEqual(self.run_script(plan * 2, "--rounds", "1", "--gate", "1.6")[0], 0)
        self.assertEqual(len(self.dims()), 8)
        self.assertIn("net-opset17-dynseq: median ratio 1.50, above 1.4", err)

    def test_errors_are_told_apart(self):
        self.assertEqual(self.run_script([compiled(1)], "--dim", "seq=9:3")[0], 1)
        code, out, _ = self.run_script([{"stdout": "", "stderr": "error: no", "code": 1}])
        self.assertEqual(code, 3)
        self.assertIn("FAILED", out)
        code, out, _ = self.run_script([compiled(1)], "--dim", "width=1:3")
        self.assertEqual(code, 3)
        self.assertIn("it has: batch, seq", out)


if __name__ == "__main__":
    unittest.main()
