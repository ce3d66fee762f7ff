#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tools' stable surface: JSON keys and their types, exit codes, files that NumPy and onnx read.

Runs the programs of HPU_BINARY_DIR (default: build). docs/cli.md is checked against --help.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.join(os.environ.get("HPU_BINARY_DIR") or os.path.join(ROOT, "build"), "bin")
DIGITS = os.path.join(ROOT, "tests", "models", "digits")
MODEL = os.path.join(DIGITS, "model.onnx")
NUMBER = (int, float)


def run(tool, *arguments, **options):
    command = [os.path.join(BIN, tool), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


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
        self.check(value, {"compile_ms": NUMBER, "phases": list, "recipe_bytes": int, "workspace_bytes": int,
                           "largest_live_set_bytes": int, "sram_peak_bytes": int, "device_time_us": NUMBER,
                           "lower_bound_us": NUMBER, "unsupported": list})
        self.assertEqual(value["recipe_bytes"], os.path.getsize(self.recipe))
        self.assertGreaterEqual(value["device_time_us"], value["lower_bound_us"])
        self.assertGreaterEqual(value["workspace_bytes"], 0)
        names = [phase["name"] for phase in value["phases"]]
        self.assertEqual(names, self.json(0, "hpu-compile", "--list-phases")["phases"])
        for phase in value["phases"]:
            self.check(phase, {"name": str, "ms": NUMBER})
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
        self.check(value, {"tflops": NUMBER, "time_us": NUMBER, "terms": dict})
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
        self.check(value, {"host_latency_ms": dict, "device_time_us": NUMBER, "compile_ms": NUMBER, "load_ms": NUMBER,
                           "engine_busy": dict, "throughput": NUMBER, "outputs": list, "passed": bool})
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
            self.check(entry, {"name": str, "max_abs": NUMBER, "max_rel": NUMBER, "wrong": int, "pcc": NUMBER})
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
            self.assertRegex(result.stderr, rf"\Aerror: '{re.escape(path)}': [^\n]+\n\Z", name)

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
            self.assertRegex(result.stderr, r"\Aerror: [^\n]*'mathmul' of the keep-f32 list[^\n]+"
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
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([os.path.join(BIN, "hpu-compile"), "--list-ops"], stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("error: cannot write to stdout", result.stderr)

    def test_no_progress_is_written_to_a_pipe(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            result = run("hpu-compile", MODEL, "--target", "gaudi2", cwd=work)
        self.assertEqual(result.stderr, "")


class Record(unittest.TestCase):
    """hpu-trace record, and HPU_TRACE, which it sets."""

    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        cls.recipe = os.path.join(cls.models.name, "digits.recipe")
        result = run("hpu-compile", MODEL, "-o", cls.recipe, "--target", "gaudi2", "--quiet")
        assert result.returncode == 0, result.stderr

    @classmethod
    def tearDownClass(cls):
        cls.models.cleanup()

    def setUp(self):
        self.work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(self.work.cleanup)
        self.trace = os.path.join(self.work.name, "t.hputrace")
        self.hpu_run = [os.path.join(BIN, "hpu-run"), self.recipe, "--input", "zeros", "--quiet"]

    def record(self, code, command, *options):
        result = run("hpu-trace", "record", "-o", self.trace, *options, "--", *command, cwd=self.work.name)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def json(self, *arguments):
        result = run("hpu-trace", *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_the_trace_agrees_with_what_the_program_says_itself(self):
        result = self.record(0, [*self.hpu_run, "--json", "--iters", "3"])
        value = json.loads(result.stdout)
        self.assertEqual(os.listdir(self.work.name), ["t.hputrace"], "nothing else is left behind")
        self.assertEqual(run("hpu-trace", "validate", "--strict", self.trace).returncode, 0)
        summary = self.json("summary", self.trace)
        self.assertEqual(summary["launches"], 3)
        timeline = self.json("timeline", "--launch", "1", self.trace)["devices"][0]
        self.assertAlmostEqual(timeline["to_us"] - timeline["from_us"], value["device_time_us"], delta=0.01)
        self.assertGreater(timeline["engines"]["mme"]["busy_us"], 0)

    def test_levels_record_less(self):
        events = {}
        for level in ("api", "node", "slice"):
            self.record(0, self.hpu_run, "--level", level)
            info = self.json("info", self.trace)
            self.assertEqual(info["level"], level)
            events[level] = info["events"]
        self.assertLess(events["api"], events["node"])
        self.assertLessEqual(events["node"], events["slice"])

    def test_every_process_of_the_command_is_in_one_trace(self):
        script = " ".join(self.hpu_run) + " && " + " ".join(self.hpu_run) + " --target gaudi2; exit 7"
        self.record(7, ["sh", "-c", script.replace(" --target gaudi2", "")])
        info = self.json("info", self.trace)
        self.assertEqual([process["name"] for process in info["processes"]], ["hpu-run", "hpu-run"])
        self.assertEqual(sorted(device["index"] for device in info["devices"]), [0, 1])
        self.assertEqual({device["index_in_process"] for device in info["devices"]}, {0})
        first, second = sorted(process["start_us"] for process in info["processes"])
        self.assertGreater(second, first, "one ran after the other, and the clocks say so")
        self.assertEqual(self.json("summary", self.trace)["launches"], 2)

    def test_the_exit_code_is_the_commands(self):
        for code in (1, 2, 41):
            self.record(code, ["sh", "-c", " ".join(self.hpu_run) + f"; exit {code}"])
        self.record(1, ["true"])  # Nothing was recorded, which must not look like success.
        self.assertIn("no process of the command opened an OpenHPU device",
                      run("hpu-trace", "record", "-o", self.trace, "--", "true").stderr)
        self.record(3, ["sh", "-c", "exit 3"])
        self.assertIn("no-such-command", self.record(1, ["no-such-command"]).stderr)
        self.assertIn("'--'", run("hpu-trace", "record", "--help").stdout)

    def test_a_killed_process_leaves_what_it_had_recorded(self):
        many = [*self.hpu_run, "--iters", "100000000"]
        result = self.record(124, many, "--timeout", "3")
        self.assertIn("ended at its deadline", result.stderr)
        self.assertIn("ended before its recording did", result.stderr)
        summary = run("hpu-trace", "summary", self.trace, "--json")
        self.assertEqual(summary.returncode, 0, summary.stderr)
        value = json.loads(summary.stdout)
        self.assertGreater(value["launches"], 10)
        self.assertGreater(value["device_time_us"], 0)
        self.assertFalse(value["stopped"])
        self.assertEqual(run("hpu-trace", "validate", self.trace).returncode, 2)

    def test_json_has_the_commands_exit_code_and_keeps_stdout_clean(self):
        result = self.record(5, ["sh", "-c", " ".join(self.hpu_run) + "; echo noise; exit 5"], "--json")
        value = json.loads(result.stdout)
        self.assertEqual((value["exit_code"], value["signal"], value["timed_out"]), (5, 0, False))
        self.assertEqual((value["path"], value["processes"], value["dropped_events"]), (self.trace, 1, 0))
        self.assertGreater(value["events"], 0)
        self.assertIn("noise", result.stderr)

    def test_other_formats_and_too_little_room(self):
        self.trace = os.path.join(self.work.name, "t.json")
        self.record(0, self.hpu_run)
        with open(self.trace, encoding="utf-8") as file:
            self.assertGreater(len(json.load(file)["traceEvents"]), 5)
        self.trace = os.path.join(self.work.name, "small.hputrace")
        self.assertIn("dropped", self.record(0, [*self.hpu_run, "--iters", "9"], "--max-events", "20").stderr)
        self.assertGreater(self.json("summary", self.trace)["dropped_events"], 0)

    def test_the_setting_alone_records_too(self):
        environment = {**os.environ, "HPU_TRACE": os.path.join(self.work.name, "own-%p.hputrace")}
        result = subprocess.run(self.hpu_run, env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        name, = os.listdir(self.work.name)
        self.assertRegex(name, r"\Aown-\d+\.hputrace\Z")
        self.assertEqual(self.json("summary", os.path.join(self.work.name, name))["launches"], 1)
        for value, mention in (("/no/such/folder/t.hputrace", "/no/such/folder"), ("t.json", "hpu-trace export")):
            result = subprocess.run(self.hpu_run, env={**os.environ, "HPU_TRACE": value}, capture_output=True, text=True,
                                    timeout=120, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"\Aerror: HPU_TRACE=" + re.escape(value))
            self.assertIn(mention, result.stderr)

    def test_a_cut_trace_is_an_error_with_its_offset(self):
        self.record(0, [*self.hpu_run, "--iters", "5"])
        with open(self.trace, "rb") as file:
            whole = file.read()
        cut = os.path.join(self.work.name, "cut.hputrace")
        for share in (0.05, 0.2, 0.5, 0.9, 0.999):
            size = int(len(whole) * share)
            # What ends between two chunks is a recording whose process was killed, which is read: one byte more is cut.
            for end in (size, size + 1):
                with open(cut, "wb") as file:
                    file.write(whole[:end])
                result = run("hpu-trace", "summary", cut)
                if result.returncode == 0 and end == size:
                    self.assertIn("ended before its recording did", result.stderr)
                    continue
                self.assertEqual((result.returncode, result.stdout), (1, ""), share)
                self.assertRegex(result.stderr, rf"\Aerror: [^\n]*cut.hputrace[^\n]* byte \d+[^\n]*\n\Z")
                break


class Documents(unittest.TestCase):
    def test_cli_md_has_every_option_of_the_tools(self):
        with open(os.path.join(ROOT, "docs", "cli.md"), encoding="utf-8") as file:
            text = file.read()
        verbs = "summary top timeline roofline memory overlap critical-path diff merge export info validate record"
        for tool in ("hpu-compile", "hpu-run", "hpu-verify", "hpu-trace"):
            helps = [run(tool, "--help").stdout]
            if tool == "hpu-trace":
                helps += [run(tool, verb, "--help").stdout for verb in verbs.split()]
                for verb in verbs.split():
                    self.assertRegex(helps[0], rf"(?m)^  {verb} ")
            options = set(re.findall(r"(?m)^ +(?:-\w,)?(--[a-z][a-z-]+)", "".join(helps)))
            section = re.search(rf"^## {tool}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
            self.assertTrue(section, f"docs/cli.md has no section {tool}")
            common = re.search(r"^## All tools$(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL).group(1)
            missing = sorted(option for option in options if option not in section.group(1) + common)
            self.assertEqual(missing, [], f"docs/cli.md, section {tool}")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
