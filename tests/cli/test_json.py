#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The stable surface of the tools: JSON keys and their types, exit codes, and what goes to which stream."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from cli import BIN, DIGITS, MODEL, onnx, ROOT, run


class JsonOutput(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(self.work.cleanup)
        self.recipe = os.path.join(self.work.name, "digits.recipe")

    def json(self, code, tool, *arguments):
        """The one JSON object on stdout of a run that exits with `code`."""
        result = run(tool, *arguments, "--json", cwd=self.work.name)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def check(self, value, keys):
        for key, kind in keys.items():
            self.assertIn(key, value)
            self.assertIsInstance(value[key], kind, key)

    def compile(self, *more):
        return self.json(0, "hpu-compile", MODEL, "-o", self.recipe, "--target", "gaudi2", *more)

    def test_compile_reports_sizes_times_and_phases(self):
        value = self.compile("--report", "time")
        self.check(value, {"compile_ms": (int, float), "phases": list, "recipe_bytes": int, "workspace_bytes": int,
                           "largest_live_set_bytes": int, "sram_peak_bytes": int, "device_time_us": (int, float),
                           "lower_bound_us": (int, float), "unsupported": list})
        self.assertEqual(value["recipe_bytes"], os.path.getsize(self.recipe))
        self.assertGreaterEqual(value["device_time_us"], value["lower_bound_us"])
        self.assertGreaterEqual(value["workspace_bytes"], 0)
        names = [phase["name"] for phase in value["phases"]]
        self.assertEqual(names, self.json(0, "hpu-compile", "--list-phases")["phases"])
        for phase in value["phases"]:
            self.check(phase, {"name": str, "ms": (int, float)})
        self.assertIn("device time", value["reports"]["time"])

    def test_compile_lists_unsupported_nodes(self):
        model = os.path.join(ROOT, "tests", "models", "malformed", "unknown_ops.onnx")
        value = self.json(1, "hpu-compile", model, "--target", "gaudi2")
        self.assertEqual({node["op"] for node in value["unsupported"]}, {"FrobnicateTensor", "GlorpReduce", "ZorkConv"})
        for node in value["unsupported"]:
            self.check(node, {"op": str, "node": str, "reason": str})
        self.assertEqual(value["code"], "UNIMPLEMENTED")

    def test_estimate_gemm_has_terms_that_sum_to_the_time(self):
        value = self.json(0, "hpu-compile", "--estimate-gemm", "512x1024x256:bf16", "--target", "gaudi3")
        self.check(value, {"tflops": (int, float), "time_us": (int, float), "terms": dict})
        self.assertAlmostEqual(sum(value["terms"].values()), value["time_us"], places=5)
        self.assertAlmostEqual(value["tflops"], 2 * 512 * 1024 * 256 / value["time_us"] / 1e6, places=3)
        self.assertEqual(sum(value["terms_ps"].values()), value["time_ps"])

    def test_estimate_gemm_knows_the_targets_types_and_clocks(self):
        def estimate(code, shape, target, *more):
            return self.json(code, "hpu-compile", "--estimate-gemm", shape, "--target", target, *more)
        for target, types in (("gaudi1", "bf16 f32"), ("gaudi2", "bf16 f16 fp8 f8e5m2 f32"),
                              ("gaudi3", "bf16 f16 fp8 f8e5m2 f32")):
            for dtype in types.split():
                self.assertGreater(estimate(0, f"256x256x256:{dtype}", target)["tflops"], 0)
        for target, dtype in (("gaudi1", "f16"), ("gaudi1", "fp8"), ("gaudi2", "int8"), ("gaudi3", "f64")):
            error = estimate(1, f"256x256x256:{dtype}", target)
            self.assertEqual(error["code"], "UNIMPLEMENTED")
            self.assertIn("bf16", error["error"])
        for shape in ("256x256:bf16", "0x1x1:bf16", "1x1x16777217:bf16", "1x2x3:bf17", "axbxc:f32", ":", "1x1x1:"):
            self.assertEqual(estimate(1, shape, "gaudi2")["code"], "INVALID_ARGUMENT", shape)
        self.assertEqual(estimate(1, "16777216x16777216x16777216:f32", "gaudi1")["code"], "OUT_OF_RANGE")
        large = "8192x8192x8192:bf16"
        sustained, shipping, datasheet = (estimate(0, large, "gaudi3", "--clock", clock)["tflops"]
                                          for clock in ("sustained", "shipping", "datasheet"))
        self.assertLess(sustained, shipping)
        self.assertLess(shipping, datasheet)
        self.assertIn("sustained", estimate(1, large, "gaudi3", "--clock", "fast")["error"])
        one, eight = (estimate(0, shape, "gaudi2")["time_us"] for shape in ("64x64x64:bf16", "8x64x64x64:bf16"))
        self.assertGreater(eight, 0.99 * one)

    def test_run_reports_both_clocks(self):
        self.compile()
        value = self.json(0, "hpu-run", self.recipe, "--data", DIGITS, "--iters", "5")
        self.check(value, {"host_latency_ms": dict, "device_time_us": (int, float), "compile_ms": (int, float), "load_ms": (int, float),
                           "engine_busy": dict, "throughput": (int, float), "outputs": list, "passed": bool})
        latency = value["host_latency_ms"]
        self.assertLessEqual(latency["min"], latency["p50"])
        self.assertLessEqual(latency["p50"], latency["p90"])
        self.assertLessEqual(latency["p90"], latency["p99"])
        for engine in ("mme", "tpc", "dma"):
            self.assertGreaterEqual(value["engine_busy"][engine], 0)
            self.assertLessEqual(value["engine_busy"][engine], 1)

    def test_device_time_is_the_same_in_every_run(self):
        self.compile()
        times = {self.json(0, "hpu-run", self.recipe, "--input", f"rand:{seed}", "--threads", threads)["device_time_us"]
                 for seed, threads in (("1", "1"), ("2", "2"), ("3", "1"))}
        self.assertEqual(len(times), 1, times)

    def test_an_engine_that_the_target_lacks_is_null(self):
        value = self.json(0, "hpu-run", MODEL, "--target", "gaudi3", "--input", "zeros")
        self.assertIsNone(value["engine_busy"]["dma"])

    def test_verify_reports_every_output(self):
        value = self.json(0, "hpu-verify", MODEL, "--data", DIGITS, "--target", "gaudi2", "--per-op")
        self.assertIs(value["passed"], True)
        for entry in value["outputs"] + value["per_op"]:
            self.check(entry, {"name": str, "max_abs": (int, float), "max_rel": (int, float), "wrong": int, "pcc": (int, float)})
        self.assertIsNone(value["bisect"])

    def test_a_mismatch_exits_with_two(self):
        value = self.json(2, "hpu-verify", MODEL, "--data", DIGITS, "--target", "gaudi2", "--rtol", "0", "--atol", "0")
        self.assertIs(value["passed"], False)
        self.assertGreater(value["outputs"][0]["wrong"], 0)

    def test_npy_and_npz_pass_between_numpy_and_the_tools(self):
        self.compile()
        images = np.random.default_rng(5).random((360, 1, 8, 8), dtype=np.float32)
        path = os.path.join(self.work.name, "images.npy")
        np.save(path, np.asfortranarray(images))
        self.json(0, "hpu-run", self.recipe, "--input", f"image=@{path}", "--output", "first")
        first = np.load(os.path.join(self.work.name, "first", "output_0.npy"))
        self.assertEqual(first.shape, (360, 10))
        self.assertEqual(first.dtype, np.float32)
        inputs, outputs = (os.path.join(self.work.name, name) for name in ("in.npz", "out.npz"))
        np.savez_compressed(inputs, image=images)
        np.savez(outputs, logits=first)
        value = self.json(0, "hpu-verify", MODEL, "--npz", inputs, outputs, "--target", "gaudi2")
        self.assertEqual(value["outputs"][0]["max_abs"], 0)
        np.savez(outputs, logits=first + 1)
        self.json(2, "hpu-verify", MODEL, "--npz", inputs, outputs, "--target", "gaudi2")

    def test_errors_are_json_too(self):
        value = self.json(1, "hpu-run", "missing.recipe")
        self.check(value, {"error": str, "code": str})
        self.assertEqual(value["code"], "NOT_FOUND")
        value = self.json(1, "hpu-compile", "--nonsense")
        self.assertEqual(value["code"], "INVALID_ARGUMENT")


class Streams(unittest.TestCase):
    def test_nothing_but_json_is_on_stdout_and_messages_are_on_stderr(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            result = run("hpu-run", MODEL, "--json", "--verbose", cwd=work)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(result.stdout.startswith("{") and result.stdout.endswith("}\n"))
        self.assertIn("note: compiling for gaudi2", result.stderr)
        self.assertIn("schedule", result.stderr)

    def test_a_broken_model_is_one_line_with_its_path(self):
        folder = os.path.join(ROOT, "tests", "models", "malformed")
        for name in ("empty", "truncated", "cycle", "shape_matmul", "external_missing", "opset_ancient", "dims_huge_weight"):
            path = os.path.join(folder, name + ".onnx")
            result = run("hpu-compile", path, "--target", "gaudi2", "-o", os.devnull)
            self.assertEqual(result.returncode, 1, name)
            # Of what is not supported details follow.
            more = "" if name != "opset_ancient" else r"  Relu [^\n]+\n(    (inputs|outputs|help): [^\n]+\n){3}"
            self.assertRegex(result.stderr, rf"\Aerror: '{re.escape(path)}': [^\n]+\n{more}\Z", name)

    def test_options_that_mean_nothing_are_refused(self):
        for options in (("--rtol", "nan"), ("--atol", "-3"), ("--rtol", "inf"), ("--percentile", "nan"),
                        ("--threads", "-1"), ("--dim", "n=2", "--dim", "n=3")):
            result = run("hpu-run", MODEL, "--quiet", *options)
            self.assertEqual(result.returncode, 1, options)
            self.assertRegex(result.stderr, r"\Aerror: " + options[0])

    def test_a_misspelt_name_to_keep_in_f32_is_one_line_with_names_near_it(self):
        for precision in ("f32", "f16"):
            result = run("hpu-compile", MODEL, "--target", "gaudi2", "--precision", precision, "--keep-f32", "relu,mathmul",
                         "-o", os.devnull)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertRegex(result.stderr, r"\Aerror: [^\n]*'mathmul' of --keep-f32 [^\n]+"
                                            r"did you mean [^\n]*'matmul'[^\n]*\?\n\Z")

    def test_archives_go_by_name(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            images, scores = (os.path.join(work, name) for name in ("in.npz", "out.npz"))
            np.savez(images, picture=np.zeros((360, 1, 8, 8), np.float32))
            np.savez(scores, logits=np.zeros((360, 10), np.float32))
            result = run("hpu-verify", MODEL, "--npz", images, scores, "--target", "gaudi2")
        self.assertEqual(result.returncode, 1)
        self.assertIn("has no tensor 'image'", result.stderr)

    def test_a_full_disk_is_not_success(self):
        # The list of ops is longer than stdio's buffer, the version is shorter: either may be what fails.
        for option in ("--list-ops", "--version"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([os.path.join(BIN, "hpu-compile"), option], stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, 1, option)
            self.assertIn("error: cannot write to stdout", result.stderr, option)

    def test_no_progress_is_written_to_a_pipe(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            result = run("hpu-compile", MODEL, "--target", "gaudi2", cwd=work)
        self.assertEqual(result.stderr, "")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
