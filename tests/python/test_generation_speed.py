# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/generation.py with stand-ins for the programs: ratios, tokens that differ, gates, exit codes."""

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "benchmarks"))
import generation  # noqa: E402


class Generation(unittest.TestCase):
    def run_script(self, results, *arguments):
        """`results` by program: what it generates and how fast."""
        def run(command, _args):
            name = "ort" if command[0] == "node" else "python" if command[0] == sys.executable else "cpp"
            if isinstance(results[name], Exception):
                raise results[name]
            return results[name]

        out, err = io.StringIO(), io.StringIO()
        # Nothing is exported.
        modules = {"check": mock.Mock(), "nets_late": mock.MagicMock()}
        with mock.patch.object(generation, "run", run), mock.patch.dict(sys.modules, modules), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            code = generation.main(["net", "--rounds", "2", *arguments])
        return code, out.getvalue(), err.getvalue()

    def test_ratios_are_ours_to_theirs(self):
        code, out, err = self.run_script({"cpp": (["1"], 300.0), "python": (["1"], 100.0), "ort": (["1"], 200.0)})
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"net +cpp +300 +200 +1\.50 +1\.50 +1\.50\n")
        self.assertRegex(out, r"net +python +100 +200 +0\.50 +0\.50 +0\.50")

    def test_other_tokens_and_a_gate_are_regressions(self):
        same = {"cpp": (["1"], 300.0), "python": (["1"], 100.0), "ort": (["1"], 200.0)}
        self.assertEqual(self.run_script(same, "--gate", "1.6")[0], 2)
        code, out, _ = self.run_script({**same, "python": (["2"], 100.0)})
        self.assertEqual(code, 2)
        self.assertIn("OTHER TOKENS", out)

    def test_a_failed_program_and_a_wrong_call(self):
        failed = {"cpp": generation.ProgramFailed("generation: exit code 1"), "python": None, "ort": None}
        code, _, err = self.run_script(failed)
        self.assertEqual(code, 3)
        self.assertIn("generation: exit code 1", err)
        self.assertEqual(self.run_script(failed, "--tokens", "many")[0], 1)


if __name__ == "__main__":
    unittest.main()
