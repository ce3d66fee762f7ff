# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/compile_time.py with stand-in programs: what is added up, gates, exit codes."""

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
import compile_time  # noqa: E402
import stand_ins  # noqa: E402


def warm(lookup, load, hit=True):
    return {"stdout": {"compile_ms": lookup, "load_ms": load, "cache_hit": hit}}


def session(ms):
    return {"stdout": {"session_ms": ms}}


class CompileTime(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-compile-time-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.bin = os.path.join(self.folder, "bin")
        model = os.path.join(self.folder, "models", "m-opset13")
        os.makedirs(os.path.join(model, "test_data_set_0"))
        with open(os.path.join(model, "model.onnx"), "wb") as file:
            file.write(b"x" * 1000)
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = self.bin + os.pathsep + path  # `node` is a stand-in too

    def run_script(self, plan, *arguments):
        # hpu-compile is a stand-in that writes its recipe, as the script removes it.
        stand_ins.install(self.bin, plan)
        wrapper = os.path.join(self.bin, "hpu-compile")
        os.rename(wrapper, wrapper + "-inner")
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nfor a; do [ "$p" = -o ] && : > "$a"; p=$a; done\n'
                       'exec "$0-inner" "$@"\n')
        os.chmod(wrapper, 0o755)
        with open(os.path.join(self.bin, "plan.json"), encoding="utf-8") as file:
            content = json.load(file)
        content["hpu-compile-inner"] = content["hpu-compile"]
        with open(os.path.join(self.bin, "plan.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = compile_time.main([os.path.join(self.folder, "models"), "--build", self.folder,
                                      "--rounds", "3", "--json", *arguments])
        return code, json.loads(out.getvalue()) if out.getvalue() else None, err.getvalue()

    @staticmethod
    def plan(runs=None, ort=None, cold_ms=4000):
        return {"hpu-compile": {"stdout": {"compile_ms": cold_ms, "recipe_bytes": 7,
                                           "phases": [{"name": "emit", "ms": 1}]}},
                "hpu-run": runs or warm(10, 20), "node": ort or session(60)}

    def test_a_warm_start_is_the_lookup_and_the_load(self):
        runs = [warm(0, 0), warm(10, 20), warm(20, 25), warm(10, 50)]
        code, report, _ = self.run_script(self.plan(runs, [session(60), session(30), session(60)]))
        self.assertEqual(code, 0)
        result = report["models"]["m-opset13"]
        self.assertEqual([r["warm_ms"] for r in result["rounds"]], [30, 45, 60])
        self.assertEqual(result["ratio"], {"min": 0.5, "median": 1.0, "max": 1.5})
        self.assertEqual(result["phases"], {"emit": 1})
        self.assertEqual(result["peak_limit_bytes"], 3000 + 500_000_000)
        self.assertGreater(result["peak_bytes"], 1_000_000)

    def test_each_gate_is_a_regression_of_its_own(self):
        self.assertEqual(self.run_script(self.plan(), "--gate-cold", "5", "--gate-memory", "--gate", "0.6")[0], 0)
        code, _, err = self.run_script(self.plan(), "--gate-cold", "3")
        self.assertEqual(code, 2)
        self.assertIn("4.0 s", err)
        self.assertEqual(self.run_script(self.plan(), "--gate", "0.4")[0], 2)

    def test_a_recipe_that_is_not_found_again_is_a_failure(self):
        code, report, _ = self.run_script(self.plan(warm(10, 20, hit=False)))
        self.assertEqual(code, 3)
        self.assertIn("cache", report["models"]["m-opset13"]["error"])

    def test_a_program_that_fails_is_named(self):
        plan = self.plan()
        plan["hpu-compile"] = {"stdout": "", "code": 1, "stderr": "error: no such op\n"}
        code, report, _ = self.run_script(plan)
        self.assertEqual(code, 3)
        self.assertIn("no such op", report["models"]["m-opset13"]["error"])


if __name__ == "__main__":
    unittest.main()
