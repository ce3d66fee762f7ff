# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/runtime/eager_ratio.py with a stand-in benchmark and a stand-in op."""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benchmarks", "runtime"))
import eager_ratio  # noqa: E402


class EagerRatio(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-eager-ratio-")
        self.addCleanup(shutil.rmtree, self.folder)

    def benchmark(self, medians):
        """A program that prints these medians as Google Benchmark does."""
        runs = [{"name": f"{eager_ratio.ROWS[row]}/min_time:0.050/manual_time", "median_ns": value}
                for row, value in medians.items()]
        path = os.path.join(self.folder, "benchmark")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable}\nprint({json.dumps({'benchmarks': runs})!r})\n")
        os.chmod(path, 0o755)
        return path

    def run_script(self, program, torch_ns, *options, code=0):
        out = io.StringIO()
        with mock.patch.object(eager_ratio, "torch_ns", lambda samples: torch_ns), \
                mock.patch.object(sys, "argv", ["eager_ratio.py", program, "--rounds", "2", *options]), \
                contextlib.redirect_stdout(out):
            self.assertEqual(eager_ratio.main(), code)
        return out.getvalue()

    def test_ratios_are_of_medians_and_aims_are_named(self):
        medians = {row: 500.0 for row in eager_ratio.ROWS}
        medians["replay, per captured launch"] = 4000.0
        text = self.run_script(self.benchmark(medians), 1000.0)
        lines = {line[:30].strip(): line for line in text.splitlines()}
        self.assertIn(" 0.50", lines["event record"])
        self.assertNotIn("above", lines["event record"])
        self.assertIn(" 4.00", lines["replay, per captured launch"])
        self.assertIn("above its aim", lines["replay, per captured launch"])
        self.assertIn("15000 ns", lines["cached eager op"])

    def test_the_gate_is_the_exit_code(self):
        medians = {row: 500.0 for row in eager_ratio.ROWS}
        self.run_script(self.benchmark(medians), 1000.0, "--gate")
        medians["event record"] = 5001.0
        self.run_script(self.benchmark(medians), 1000.0)
        self.run_script(self.benchmark(medians), 1000.0, "--gate", code=2)

    def test_a_missing_benchmark_is_named(self):
        medians = {row: 1.0 for row in eager_ratio.ROWS if row != "fill 4 KB"}
        with self.assertRaises(SystemExit) as caught:
            self.run_script(self.benchmark(medians), 1000.0)
        self.assertIn("fill 4 KB", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
