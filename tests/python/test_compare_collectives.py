# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/collectives/wall/compare.py with stand-in programs."""

import contextlib
import importlib.util
import io
import json
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "..", "..", "benchmarks", "collectives", "wall", "compare.py")
_spec = importlib.util.spec_from_file_location("compare_collectives", SCRIPT)
compare = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compare)

MB = 1 << 20


class CompareCollectives(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-compare-collectives-")
        self.addCleanup(shutil.rmtree, self.folder)
        # 1 us for 10 KB, and twice that for plain memcpy's half.
        self.program("hccl-perf", """
            size = int(sys.argv[sys.argv.index("-b") + 1])
            us = size / 1e4 * (3 if "--blocking" in sys.argv else 1)
            print(json.dumps({"results": [{"in_place": True, "wall_us": 1e9}, {"in_place": False, "wall_us": us}]}))""")
        self.program("copy_bench", self.by_size("size / 2e4"))
        self.program("gloo_bench", self.by_size("size / 1e3"))

    @staticmethod
    def by_size(expression):
        return f"""
            sizes = [int(size) for size in sys.argv[3].split(",")]
            print(json.dumps({{"results": [{{"bytes": size, "us": {expression}}} for size in sizes]}}))"""

    def program(self, name, body):
        lines = [line.strip() for line in body.strip().splitlines()]
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([f"#!{sys.executable}", "import json, sys", *lines]) + "\n")
        os.chmod(path, 0o755)

    def run_script(self, *arguments):
        out, errors = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", ["compare.py", self.folder, "--rounds", "2", *arguments]), \
                mock.patch.object(compare, "contenders", self.contenders), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = compare.main()
        return code, out.getvalue(), errors.getvalue()

    def contenders(self, bin_dir, op, ranks, sizes, timeout):
        """Without network namespaces and mpirun, which a test machine may not have."""
        listed = ",".join(map(str, sizes))
        runs = {"ours": lambda: compare.ours(bin_dir, op, ranks, sizes, False, timeout),
                "memcpy": lambda: compare.theirs([os.path.join(bin_dir, "copy_bench"), op, str(ranks), listed], timeout),
                "gloo": lambda: compare.theirs([os.path.join(bin_dir, "gloo_bench"), op, str(ranks), listed], timeout)}
        small = [size for size in sizes if size < 64 << 10]
        if small:
            runs["ours, one at a time"] = lambda: compare.ours(bin_dir, op, ranks, small, True, timeout)
        return runs

    def test_ratios_are_of_medians_beside_the_best_other(self):
        path = os.path.join(self.folder, "out.json")
        code, text, _ = self.run_script("--ops", "all_reduce", "--ranks", "2,4", "--sizes", f"1024,{MB}", "--output", path, "--gate", "9")
        self.assertEqual(code, 0)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(len(report["rows"]), 4)
        self.assertAlmostEqual(report["summary"]["geomean_from_1MB"], 10)
        self.assertAlmostEqual(report["summary"]["share_of_memory_bound_from_1MB"], 0.5)
        self.assertEqual(report["summary"]["slower_from_64KB"], 0)
        small = report["rows"][0]
        self.assertAlmostEqual(small["one_at_a_time_us"], 3 * small["us"])
        self.assertIsNone(report["rows"][1]["one_at_a_time_us"])
        self.assertIn("10.00", text)

    def test_a_gate_that_is_missed_is_exit_code_2(self):
        code, _, errors = self.run_script("--ops", "reduce", "--ranks", "2", "--sizes", str(MB), "--gate", "11")
        self.assertEqual(code, 2)
        self.assertIn("below 11", errors)

    def test_a_program_that_fails_is_named(self):
        self.program("copy_bench", "sys.exit('no memory today')")
        code, _, errors = self.run_script("--ops", "reduce", "--ranks", "2", "--sizes", str(MB))
        self.assertEqual(code, 3)
        self.assertIn("no memory today", errors)

    def test_the_best_of_each_library_counts(self):
        samples = {"ours": {MB: [10.0, 20.0, 30.0]}, "memcpy": {MB: [5.0]}, "gloo, MTU 65536": {MB: [90.0]}, "gloo, MTU 9000": {MB: [60.0]},
                   "Open MPI": {MB: [50.0]}, "Open MPI, yielding": {MB: [40.0]}}
        row = compare.rows_of("reduce", 2, samples)[0]
        self.assertEqual((row["best"], row["ratio"], row["spread"]), ("Open MPI, yielding", 2.0, 3.0))


if __name__ == "__main__":
    unittest.main()
