# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/late_sizes_run.py with measured rows in place of networks: geometric means, gates, exit codes."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benchmarks"))
import late_sizes_run  # noqa: E402
from harness import ProgramFailed  # noqa: E402


def row(device, host):
    return {"sizes": {"seq": 1}, "device_ratio": device, "host_ratio": host}


class LateSizesRun(unittest.TestCase):
    def run_script(self, measured, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(late_sizes_run, "measure", side_effect=measured), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            code = late_sizes_run.main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def test_geometric_means_and_the_worst_are_shown(self):
        code, out, err = self.run_script([[row(0.5, 1.0), row(2.0, 4.0)]], "net")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"net +1\.000 +2\.00 +2\.000 +4\.00")

    def test_gates_are_on_geometric_means(self):
        rows = [row(1.0, 1.0), row(1.21, 1.0)]
        self.assertEqual(self.run_script([rows], "net", "--gate-device", "1.11")[0], 0)
        code, _, err = self.run_script([rows], "net", "--gate-device", "1.09")
        self.assertEqual(code, 2)
        self.assertIn("error: net: device times 1.100 times", err)
        self.assertEqual(self.run_script([[row(1.0, 1.3)]], "net", "--gate-host", "1.2")[0], 2)

    def test_a_failed_program_and_a_wrong_call(self):
        code, _, err = self.run_script(ProgramFailed("hpu-run: exit code 3"), "net")
        self.assertEqual(code, 3)
        self.assertIn("hpu-run: exit code 3", err)
        self.assertEqual(self.run_script([], "net", "--shapes", "many")[0], 1)

    def test_everything_measured_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "kept.json")
            self.assertEqual(self.run_script([[row(1.0, 1.0)]], "net", "--output", path)[0], 0)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["networks"]["net"], [row(1.0, 1.0)])


if __name__ == "__main__":
    unittest.main()
