# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/runtime/enqueue_latency.py with a stand-in benchmark."""

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
import enqueue_latency  # noqa: E402

FAILED = 2


class EnqueueLatency(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-enqueue-latency-")
        self.addCleanup(shutil.rmtree, self.folder)

    def benchmark(self, name="benchmark", median=400, p99=1000, stalls=0, **other):
        """A program that writes the report of Google Benchmark; `other` by row: counters that differ."""
        rows = []
        for call in enqueue_latency.LIMITS_NS:
            for batch in enqueue_latency.BATCHES:
                row = {"name": f"{call}/{batch}/min_time:0.050/manual_time", "median_ns": median, "p99_ns": p99,
                       "real_time": 1.5 * median * batch, "p999_ns": 2 * p99, "max_ns": 3 * p99,
                       "control_median_ns": 20, "control_p99_ns": 30, "control_p999_ns": 40}
                row.update(other.get(call, {}))
                rows.append(row)
        rows.append({"name": f"{enqueue_latency.STALLS}/iterations:1", "cpu_stalls": stalls, "wait_stalls": 0,
                     "longest_cpu_ns": 1000, "longest_wait_ns": 0, "control_cpu_stalls": 1, "control_wait_stalls": 0})
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable}\nimport sys\n"
                       "out = [a.split('=', 1)[1] for a in sys.argv if a.startswith('--benchmark_out=')][0]\n"
                       f"open(out, 'w').write({json.dumps({'benchmarks': rows})!r})\n")
        os.chmod(path, 0o755)
        return path

    def run_script(self, program, *options, code=0):
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["enqueue_latency.py", program, "--rounds", "3", *options]), \
                contextlib.redirect_stdout(out):
            self.assertEqual(enqueue_latency.main(), code)
        return out.getvalue()

    def test_what_is_within_its_limits_passes(self):
        text = self.run_script(self.benchmark())
        self.assertRegex(text, r"enqueueFill/100 +400 +600 +1000")  # Median, mean, 99th percentile.
        self.assertNotIn("FAILED", text)

    def test_a_percentile_above_its_limit_fails(self):
        self.assertIn("enqueueRecord/100: p99 is 5001 ns, above 5000",
                      self.run_script(self.benchmark(enqueueRecord={"p99_ns": 5001}), code=FAILED))
        self.run_script(self.benchmark(enqueueLaunch={"p99_ns": 7999}))

    def test_a_stall_fails(self):
        self.assertIn("stalled", self.run_script(self.benchmark(stalls=2), code=FAILED))
        self.run_script(self.benchmark(stalls=1))

    def test_a_slower_median_than_before_fails(self):
        before = self.benchmark("before", median=300)
        self.assertIn("the median is 400 ns, and was 300",
                      self.run_script(self.benchmark(), "--before", before, code=FAILED))
        self.run_script(self.benchmark(), "--before", self.benchmark("same"))

    def test_a_failed_call_is_not_measured(self):
        failing = self.benchmark(enqueueFill={"error_occurred": True, "error_message": "UNAVAILABLE: on fire"})
        with self.assertRaises(SystemExit) as caught:
            self.run_script(failing)
        self.assertIn("on fire", str(caught.exception))

    def test_the_table_is_kept_as_json(self):
        path = os.path.join(self.folder, "out.json")
        self.run_script(self.benchmark(), "--json", path)
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
        self.assertEqual(len(table["rows"]), len(enqueue_latency.LIMITS_NS) * len(enqueue_latency.BATCHES))
        self.assertEqual(table["failures"], [])


if __name__ == "__main__":
    unittest.main()
