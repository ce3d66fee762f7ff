#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tools' stable surface: JSON keys and their types, exit codes, files that NumPy and onnx read.

Runs the programs of HPU_BINARY_DIR (default: build). docs/cli.md is checked against --help.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree

import numpy as np

try:
    import onnx
    import onnx.helper
    import onnx.numpy_helper
except ImportError:
    onnx = None

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

    def test_the_timeline_is_as_wide_as_the_terminal(self):
        self.record(0, self.hpu_run)
        for columns, bar in ((80, 40), (200, 100)):
            code, lines, error = in_terminal(columns, "hpu-trace", "timeline", self.trace)
            self.assertEqual(code, 0, error)
            self.assertLessEqual(max(map(len, lines)), columns)
            [launch] = [line for line in lines if line.startswith("launch ")]
            self.assertEqual(len(launch), 8 + bar)
        piped = run("hpu-trace", "timeline", self.trace, env={name: value for name, value in os.environ.items() if name != "COLUMNS"})
        self.assertIn("busy", piped.stdout)
        self.assertEqual(max(len(line) for line in piped.stdout.splitlines() if line.startswith("launch ")), 108)

    def test_the_drawn_timeline_has_every_slice_and_is_the_same_in_every_run(self):
        pictures = []
        for index in range(2):
            self.record(0, self.hpu_run)
            slices = self.json("timeline", "--launch", "0", "--slices", "1000", self.trace)["devices"][0]["slices"]
            path = os.path.join(self.work.name, f"{index}.svg")
            self.assertEqual(self.json("timeline", "--launch", "0", "--draw", path, self.trace)["path"], path)
            with open(path, encoding="utf-8") as file:
                pictures.append(file.read())
            root = xml.etree.ElementTree.fromstring(pictures[-1])
            self.assertEqual(len(root.findall(".//{*}rect/{*}title")), len(slices))
        self.assertEqual(pictures[0], pictures[1])
        stdout = run("hpu-trace", "timeline", "--launch", "0", "--draw", "-", self.trace)
        self.assertEqual(stdout.stdout, pictures[0], "what is for people goes to stderr")
        self.assertEqual(run("hpu-trace", "timeline", "--draw", self.trace, self.trace).returncode, 1, "no output is an input")

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

    def test_a_process_that_is_ended_at_the_deadline_ends_its_recording(self):
        result = self.record(124, [*self.hpu_run, "--iters", "100000000"], "--timeout", "3")
        self.assertIn("ended at its deadline", result.stderr)
        value = json.loads(run("hpu-trace", "summary", self.trace, "--json").stdout)
        self.assertGreater(value["launches"], 10)
        self.assertTrue(value["stopped"])

    def test_a_killed_process_leaves_what_it_had_recorded(self):
        many = " ".join([*self.hpu_run, "--iters", "100000000"])
        result = self.record(9, ["sh", "-c", f"{many} & sleep 2; kill -9 $!; wait; exit 9"])
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


def in_terminal(columns, tool, *arguments, **options):
    """What the tool prints on a terminal of so many columns, as lines."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([os.path.join(BIN, tool), *arguments], stdout=theirs, stderr=subprocess.PIPE, env=environment,
                          **options) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # The other end is closed.
                break
            if not part:
                break
            text += part
        error = process.stderr.read().decode()
    os.close(ours)
    return process.returncode, text.decode().replace("\r", "").splitlines(), error


@unittest.skipUnless(onnx, "needs Python's onnx")
class Models(unittest.TestCase):
    """Models as exporters write them: with free dimensions, with what is not supported, with names that say nothing."""

    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name

    def path(self, *names):
        return os.path.join(self.work, *names)

    def tool(self, code, tool, *arguments):
        result = run(tool, *arguments, "--quiet", cwd=self.work)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    @staticmethod
    def node(op, inputs, output, **attributes):
        return onnx.helper.make_node(op, inputs.split(), [output], name=output + "_node", **attributes)

    def save(self, name, nodes, inputs, outputs, constants, graph="torch_jit", values=(), **options):
        info = onnx.helper.make_tensor_value_info
        tensors = [onnx.numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
        model = onnx.helper.make_model(
            onnx.helper.make_graph(nodes, graph, [info(*value) for value in inputs], [info(*value) for value in outputs],
                                   tensors, value_info=[info(*value) for value in values]),
            opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, self.path(name), **options)
        return self.path(name)

    def decoder(self):
        """Positions come from a Range over the length, the mask is cut out of a constant one."""
        node, rng = self.node, np.random.default_rng(3)
        self.weights = {"emb": rng.random((50, 8), np.float32), "pos": rng.random((64, 8), np.float32),
                        "mask": np.triu(np.full((64, 64), -1e9, np.float32), 1)}
        nodes = [node("Shape", "ids", "s"), node("Gather", "s one", "len", axis=0), node("Range", "zero len one", "r"),
                 node("Gather", "pos r", "p"), node("Gather", "emb ids", "e"), node("Add", "e p", "x"),
                 node("Transpose", "x", "xt", perm=[0, 2, 1]), node("MatMul", "x xt", "scores"),
                 node("Unsqueeze", "len first", "len1"), node("Concat", "len1 len1", "ends", axis=0),
                 node("Slice", "mask starts ends axes", "m"), node("Add", "scores m", "masked"),
                 node("Softmax", "masked", "a", axis=-1), node("MatMul", "a x", "y")]
        integers = {"one": 1, "zero": 0, "first": [0], "starts": [0, 0], "axes": [0, 1]}
        constants = self.weights | {name: np.array(value, np.int64) for name, value in integers.items()}
        return self.save("decoder.onnx", nodes, [("ids", onnx.TensorProto.INT64, ["batch", "seq"])],
                         [("y", onnx.TensorProto.FLOAT, ["batch", "seq", 8])], constants, "main_graph")

    def decoded(self, ids):
        x = self.weights["emb"][ids].astype(np.float64) + self.weights["pos"][:ids.shape[1]]
        scores = x @ x.transpose(0, 2, 1) + self.weights["mask"][:ids.shape[1], :ids.shape[1]]
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return (scores / scores.sum(-1, keepdims=True) @ x).astype(np.float32)

    def data(self, ids):
        os.makedirs(self.path("data"), exist_ok=True)
        for name, array in (("input_0", ids), ("output_0", self.decoded(ids))):
            with open(self.path("data", name + ".pb"), "wb") as file:
                file.write(onnx.numpy_helper.from_array(array, "ids" if name == "input_0" else "y").SerializeToString())

    def test_sizes_come_from_data_also_when_some_are_named_and_ranges_depend_on_them(self):
        model = self.decoder()
        ids = np.random.default_rng(4).integers(0, 50, (2, 12))
        self.data(ids)
        np.save(self.path("ids.npy"), ids)
        for sizes in ((), ("--dim", "seq=12"), ("--dim", "batch=2"), ("--dim", "batch=2", "--dim", "seq=12"),
                      ("--shape", "ids=2x12")):
            self.assertIn("y: passed", self.tool(0, "hpu-run", model, "--data", "data", *sizes).stdout)
            self.assertIn("passed ", self.tool(0, "hpu-verify", model, "--data", "data", *sizes).stdout)
        for sizes in ((), ("--dim", "seq=12")):
            self.tool(0, "hpu-run", model, "--input", "ids=@ids.npy", "--output", "out", *sizes)
            np.testing.assert_allclose(np.load(self.path("out", "output_0.npy")), self.decoded(ids), rtol=1e-4)
        np.savez(self.path("in.npz"), ids=ids)
        np.savez(self.path("out.npz"), y=self.decoded(ids))
        self.tool(0, "hpu-verify", model, "--npz", "in.npz", "out.npz", "--dim", "batch=2")
        # Data that disagrees with an option is told with both.
        error = self.tool(1, "hpu-verify", model, "--data", "data", "--dim", "seq=9").stderr
        self.assertEqual(error, "error: --dim seq=9, but 'data' has 2x12xi64 for the input 'ids' [batch, seq]\n")
        error = self.tool(1, "hpu-run", model, "--data", "data", "--shape", "ids=2x9").stderr
        self.assertEqual(error, "error: --shape ids=2x9, but 'data' has 2x12xi64\n")

    def test_missing_sizes_are_asked_for_by_the_models_own_names_and_only_those(self):
        float32, weight = onnx.TensorProto.FLOAT, np.ones((8, 8), np.float32)
        model = self.save("free.onnx", [self.node("MatMul", "x w", "y")], [("x", float32, ["batch", "seq len", 8])],
                          [("y", float32, None)], {"w": weight})
        for tool, more in (("hpu-compile", ()), ("hpu-run", ()), ("hpu-verify", ("--ref", "interp"))):
            for path, second in ((model, "'seq len'"), (self.decoder(), "seq")):
                error = self.tool(1, tool, path, *more).stderr
                self.assertIn(f"sizes: --dim batch=SIZE --dim {second}=SIZE", error)
                error = self.tool(1, tool, path, "--dim", "batch=2", *more).stderr
                self.assertIn(f"sizes: --dim {second}=SIZE", error)
                self.assertNotIn("batch=", error)
                self.tool(0, tool, path, "--dim", "batch=2", "--dim", second.strip("'") + "=3", *more)

    def test_every_node_that_cannot_be_compiled_is_in_one_report(self):
        node, float32, int64 = self.node, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
        nodes = [node("Frobnicate", "x", "a"),
                 node("NonZero", "a", "b"),  # Behind what is not supported.
                 node("Cast", "b", "c", to=float32),
                 node("NonZero", "x", "d"),
                 node("Glorp", "x", "typed"),  # The file declares the type of its result.
                 onnx.helper.make_node("TopK", ["typed", "k"], ["f", "f_at"], name="f_node"),
                 node("Unsqueeze", "x seven", "deep"), node("Relu", "deep", "g")]  # Nine dimensions: no engine has them.
        outputs = [(name, kind, None) for name, kind in (("c", float32), ("d", int64), ("f", float32), ("g", float32))]
        inputs = [("x", float32, [4, 8]), ("k", int64, [1])]
        model = self.save("many.onnx", nodes, inputs, outputs, {"seven": np.arange(7)}, values=[("typed", float32, [4, 8])])
        result = run("hpu-compile", model, "--json", "--target", "gaudi2")
        self.assertEqual(result.returncode, 1)
        found = {entry["node"]: entry["op"] for entry in json.loads(result.stdout)["unsupported"]}
        self.assertEqual(found, {"a_node": "Frobnicate", "b_node": "NonZero", "d_node": "NonZero", "typed_node": "Glorp",
                                 "f_node": "TopK", "deep_node": "Unsqueeze"} | {k: v for k, v in found.items() if k == "g_node"})
        for name in found:
            self.assertIn(name, result.stderr)
        self.assertIn(f"{len(found)} nodes are not supported", result.stderr)

    def test_programs_are_named_after_the_file_where_the_graphs_name_says_nothing(self):
        float32 = onnx.TensorProto.FLOAT
        for graph, name in (("torch_jit", "tiny"), ("torch-jit-export", "tiny"), ("main_graph", "tiny"), ("MobileNet", "MobileNet")):
            model = self.save("tiny.onnx", [self.node("Relu", "x", "y")], [("x", float32, [4])], [("y", float32, [4])], {}, graph)
            self.tool(0, "hpu-run", model, "--trace", "t.hputrace")
            self.tool(0, "hpu-trace", "export", "t.hputrace", "--format", "chrome", "-o", "t.json")
            with open(self.path("t.json"), encoding="utf-8") as file:
                text = file.read()
            self.assertIn(name, text)
            self.assertNotIn("torch", text.replace(model, ""))
            self.tool(0, "hpu-compile", model, "-o", "t.recipe")
            with open(self.path("t.recipe"), "rb") as file:
                recipe = file.read()
            self.assertIn(name.encode(), recipe)
            self.assertEqual(graph.encode() in recipe, graph == name)

    def test_dumps_have_every_phase_and_no_large_constants_unless_asked_for(self):
        float32, weight = onnx.TensorProto.FLOAT, np.random.default_rng(5).random((256, 256), np.float32)
        model = self.save("large.onnx", [self.node("MatMul", "x w", "y")], [("x", float32, [4, 256])], [("y", float32, [4, 256])],
                          {"w": weight})
        self.tool(0, "hpu-compile", model, "-o", "a.recipe", "--dump-phases", "small")
        self.tool(0, "hpu-compile", model, "-o", "a.recipe", "--dump-phases", "whole", "--dump-constants")
        phases = [f"{i:02}-{name}.mlir" for i, name in enumerate(self.tool(0, "hpu-compile", "--list-phases").stdout.split())]
        self.assertEqual(sorted(os.listdir(self.path("small"))), phases)
        for phase in phases:
            self.assertLess(os.path.getsize(self.path("small", phase)), 30000, phase)
            self.assertGreater(os.path.getsize(self.path("whole", phase)), 2 * weight.nbytes, phase)
        self.tool(0, "hpu-compile", self.path("whole", phases[0]), "-o", "b.recipe")
        self.assertIn("write it with --dump-constants", self.tool(1, "hpu-compile", self.path("small", phases[0])).stderr)
        # On a terminal, too, nobody wants the digits.
        code, lines, error = in_terminal(80, "hpu-compile", model, "--stop-after", "normalize")
        self.assertEqual(code, 0, error)
        self.assertLess(sum(map(len, lines)), 30000)


class Files(unittest.TestCase):
    """What is written, and what never is."""

    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name
        self.model = os.path.join(self.work, "m.onnx")
        shutil.copy(MODEL, self.model)

    def tool(self, code, *arguments, **options):
        result = run(*arguments, cwd=self.work, **options)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        return result

    def contents(self):
        found = {}
        for folder, _, names in os.walk(self.work):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    found[os.path.relpath(os.path.join(folder, name), self.work)] = file.read()
        return found

    def test_no_tool_writes_over_one_of_its_inputs(self):
        os.mkdir(os.path.join(self.work, "sub"))
        os.symlink("m.onnx", os.path.join(self.work, "link"))
        os.symlink(self.work, os.path.join(self.work, "sub", "up"))
        os.link(self.model, os.path.join(self.work, "hard"))
        self.tool(0, "hpu-run", "m.onnx", "--quiet", "--trace", "t.hputrace")
        self.tool(0, "hpu-compile", "m.onnx", "--quiet", "-o", "m.recipe")
        np.save(os.path.join(self.work, "output_0.npy"), np.zeros((360, 1, 8, 8), np.float32))
        shutil.copytree(DIGITS, os.path.join(self.work, "data"))
        for name in ("f.json", "f.svg"):
            with open(os.path.join(self.work, name), "w", encoding="utf-8") as file:
                file.write(self.tool(0, "hccl-sim", "all_reduce", "--nodes", "2", "--json").stdout)
        before = self.contents()
        spellings = ["m.onnx", "./m.onnx", "sub/../m.onnx", self.model, "link", "sub/up/m.onnx", "hard"]
        commands = [["hpu-compile", "m.onnx", "-o", path] for path in spellings]
        commands += [["hpu-compile", "link", "-o", "m.onnx"], ["hpu-run", "m.onnx", "--trace", "link"],
                     ["hpu-run", "m.recipe", "--trace", "m.recipe"],
                     ["hpu-run", "m.onnx", "--input", "image=@output_0.npy", "--output", "."],
                     ["hpu-run", "m.onnx", "--data", "data", "--trace", "data/test_data_set_0/input_0.pb"],
                     ["hpu-trace", "merge", "t.hputrace", "t.hputrace", "-o", "./t.hputrace"],
                     ["hpu-trace", "export", "t.hputrace", "-o", "t.hputrace"],
                     ["hpu-trace", "record", "-o", "m.onnx", "--", os.path.join(BIN, "hpu-run"), "m.onnx"],
                     ["hccl-sim", "all_reduce", "--topology", "f.svg", "--draw", "./f.svg"]]
        for command in commands:
            error = self.tool(1, *command).stderr
            self.assertRegex(error, r"would be written over the input '", command)
            self.assertEqual(self.contents(), before, command)
        error = self.tool(1, "hpu-run", "m.onnx", env=os.environ | {"HPU_TRACE": "m.onnx"}).stderr
        self.assertRegex(error, r"HPU_TRACE.* would be written over the input '")
        self.assertEqual(self.contents(), before)

    @unittest.skipUnless(onnx, "needs Python's onnx")
    def test_external_data_is_an_input_too(self):
        model = onnx.load(MODEL)
        onnx.save(model, os.path.join(self.work, "e.onnx"), save_as_external_data=True, location="weights", size_threshold=0)
        before = self.contents()
        for command in (("hpu-compile", "e.onnx", "-o", "weights"), ("hpu-run", "e.onnx", "--trace", "weights")):
            self.assertIn("'weights' would be written over the input", self.tool(1, *command).stderr)
        self.assertEqual(self.contents(), before)

    def test_a_dash_is_stdout_and_all_else_is_on_stderr(self):
        def stdout(*arguments):
            return subprocess.run([os.path.join(BIN, arguments[0]), *arguments[1:]], capture_output=True, check=True,
                                  timeout=120, cwd=self.work)
        self.tool(0, "hpu-compile", "m.onnx", "-o", "m.recipe", "--target", "gaudi2", "--quiet")
        files = self.contents()
        result = stdout("hpu-compile", "m.onnx", "-o", "-", "--target", "gaudi2")
        self.assertEqual(result.stdout, files["m.recipe"])
        self.assertIn(b"compiled in", result.stderr)
        self.assertNotIn("-", self.contents())
        with open(os.path.join(self.work, "r.recipe"), "wb") as file:  # As the shell does it: the file is there.
            subprocess.run([os.path.join(BIN, "hpu-compile"), self.model, "-o", "-", "--quiet"], stdout=file, check=True, timeout=120)
        self.tool(0, "hpu-run", "r.recipe", "--input", "zeros", "--quiet")
        traced = stdout("hpu-run", "m.recipe", "--input", "zeros", "--trace", "-").stdout
        recorded = stdout("hpu-trace", "record", "-o", "-", "--", os.path.join(BIN, "hpu-run"), "m.recipe").stdout
        for name, data in (("a.hputrace", traced), ("b.hputrace", recorded)):
            with open(os.path.join(self.work, name), "wb") as file:
                file.write(data)
            self.tool(0, "hpu-trace", "validate", name)
        json.loads(stdout("hpu-trace", "export", "a.hputrace", "--format", "chrome", "-o", "-").stdout)
        self.assertGreater(len(stdout("hpu-trace", "merge", "a.hputrace", "b.hputrace", "--align", "start", "-o", "-").stdout), 1000)
        self.assertTrue(stdout("hccl-sim", "all_reduce", "--nodes", "2", "--bytes", "1M", "--draw", "-").stdout.lstrip().startswith(b"<"))
        error = self.tool(1, "hpu-compile", "m.onnx", "-o", "-", "--json").stderr
        self.assertIn("-o - and --json both write to stdout", error)
        code, lines, error = in_terminal(80, "hpu-compile", "m.onnx", "-o", "-", cwd=self.work)
        self.assertEqual((code, lines), (1, []))
        self.assertIn("not to a terminal", error)
        code, lines, error = in_terminal(80, "hpu-compile", "m.onnx", "-o", "-", "--stop-after", "import", cwd=self.work)
        self.assertEqual(code, 0, error)
        self.assertTrue(any("hpu.conv2d" in line for line in lines))

    def test_what_cannot_be_written_is_an_error_and_leaves_nothing(self):
        before = self.contents()
        for tool, arguments, path in (("hpu-compile", ["m.onnx", "-o"], "/dev/full"), ("hpu-compile", ["m.onnx", "-o"], "none/x"),
                                      ("hpu-compile", ["m.onnx", "-o"], self.work), ("hpu-run", ["m.onnx", "--trace"], "none/x"),
                                      ("hpu-run", ["m.onnx", "--trace"], "/dev/full"), ("hpu-compile", ["m.onnx", "-o"], "")):
            error = self.tool(1, tool, *arguments, path, "--quiet").stderr
            self.assertRegex(error, r"\Aerror: [^\n]+\n\Z", (tool, path))
            self.assertIn(path or "needs the name of a file", error)
            self.assertEqual(self.contents(), before, (tool, path))


class Arguments(unittest.TestCase):
    def test_what_is_no_model_is_one_line_that_names_it(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            for name, data in (("empty.onnx", b""), ("text.onnx", b"hello\n" * 99), ("empty.mlir", b""), ("noise.recipe", bytes(range(256)) * 9),
                               ("t.hputrace", b"\0" * 4096)):
                with open(os.path.join(work, name), "wb") as file:
                    file.write(data)
            result = run("hpu-compile", MODEL, "-o", "good.recipe", "--quiet", cwd=work)
            self.assertEqual(result.returncode, 0, result.stderr)
            for path in ("empty.onnx", "text.onnx", "empty.mlir", "noise.recipe", "t.hputrace", work, "missing", "a" * 5000,
                         "/dev/null", "good.recipe/x"):
                for tool, more in (("hpu-compile", ["--quiet", "-o", os.devnull]), ("hpu-run", ["--quiet"]),
                                   ("hpu-verify", ["--quiet", "--ref", "interp"]), ("hpu-trace", [])):
                    command = [tool, "summary", path] if tool == "hpu-trace" else [tool, path, *more]
                    result = run(*command, cwd=work)
                    self.assertEqual(result.returncode, 1, (command, result.stderr))
                    self.assertRegex(result.stderr, r"\Aerror: [^\n]{1,6000}\n\Z", command)
                    self.assertIn(path[:400], result.stderr, command)
            self.assertIn("is a recipe already", run("hpu-compile", "good.recipe", "-o", "x", "--quiet", cwd=work).stderr)

    def test_values_are_checked_before_anything_is_run(self):
        for command, said in ((("hpu-run", MODEL, "--labels", "none"), "cannot open 'none': No such file"),
                              (("hpu-run", MODEL, "--output", MODEL), "--output: cannot make '"),
                              (("hpu-run", MODEL, "--data", ""), "--data needs the name of a file or folder"),
                              (("hpu-run", MODEL, "--iters", "abc"), "--iters: 'abc' is not a number that it takes"),
                              (("hpu-run", MODEL, "--iters", "9" * 30), "is not a number that it takes"),
                              (("hpu-compile", MODEL, "-O"), "-O needs a value"),
                              (("hpu-verify", MODEL, "--data", DIGITS, "--labels", "none"), "cannot open 'none'")):
            result = run(*command)
            self.assertEqual((result.returncode, result.stdout), (1, ""), command)
            self.assertIn(said, result.stderr)

    def test_misspelt_words_are_answered_with_those_that_are_near(self):
        for command, meant in ((("hpu-compile", MODEL, "--report", "tabel"), None), (("hpu-compile", MODEL, "--report", "memroy"), "memory"),
                               (("hpu-compile", MODEL, "--stop-after", "fsue"), "fuse"), (("hpu-compile", MODEL, "--start-from", "tiel"), "tile"),
                               (("hpu-compile", MODEL, "--target", "gaudi4"), "gaudi1"), (("hpu-compile", MODEL, "--presicion", "f32"), "--precision"),
                               (("hpu-trace", "sumary", "x"), "summary"), (("hpu-trace", "summary", "a", "--devcie", "1"), "--device"),
                               (("hpu-verify", MODEL, "--ref", "intrep"), "interp"),
                               (("hpu-verify", MODEL, "--ref", "interp", "--input", "imgae=ones"), "image"),
                               (("hpu-smi", "--query-aip", "uuuid"), "uuid"), (("hccl-sim", "all_reduec", "--nodes", "2"), "all_reduce"),
                               (("hccl-perf", "all_gahter"), "all_gather"), (("hpu-run", MODEL, "--input", "imgae=zeros"), "image"),
                               (("hpu-compile", MODEL, "--explain", "/features/features.0/features.0.0/Cnov"),
                                "/features/features.0/features.0.0/Conv")):
            result = run(*command)
            self.assertEqual(result.returncode, 1, command)
            self.assertRegex(result.stderr, r"error: [^\n]+\n\Z", command)
            if meant:
                self.assertRegex(result.stderr, rf"did you mean .*'{re.escape(meant)}'", command)
            else:
                self.assertIn("the reports are", result.stderr)


class Widths(unittest.TestCase):
    def test_help_fits_eighty_columns_and_names_only_settings_that_the_tool_reads(self):
        tools = {"hpu-compile": "HPU_CACHE", "hpu-run": "HPU_TRACE", "hpu-verify": "HPU_NODE", "hpu-trace": "HPU_LOG_LEVEL",
                 "hpu-smi": "HPU_NODE", "hccl-perf": "HPU_COMM_NETWORK", "hccl-sim": "HPU_LOG_LEVEL"}
        foreign = {"hpu-compile": "HPU_NODE HPU_TRACE HCCL_ HPU_COMM_ HABANA_", "hpu-run": "HCCL_ HPU_COMM_ HABANA_",
                   "hpu-verify": "HCCL_ HPU_COMM_ HABANA_", "hpu-trace": "HPU_NODE HPU_CACHE HCCL_ HPU_COMM_ HABANA_",
                   "hpu-smi": "HPU_CACHE HCCL_ HPU_COMM_ HABANA_", "hccl-perf": "HPU_CACHE HPU_PROFILE_DIR", "hccl-sim": "HPU_NODE HCCL_"}
        verbs = "summary top timeline roofline memory overlap critical-path diff merge export info validate record".split()
        for tool, own in tools.items():
            if not os.path.exists(os.path.join(BIN, tool)):
                continue
            text = run(tool, "--help").stdout
            self.assertRegex(text, rf"(?m)^  {own} ", tool)
            environment = text.split("Environment:")[1]
            for word in foreign[tool].split():
                self.assertNotRegex(environment, rf"(?m)^  {word}", tool)
            if tool == "hpu-trace":
                text += "".join(run(tool, verb, "--help").stdout for verb in verbs)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, (tool, line))

    def test_reports_take_the_terminals_width_and_are_whole_on_a_pipe(self):
        explain = ("hpu-compile", MODEL, "-o", os.devnull, "--target", "gaudi2", "--explain", "features.0.0/Conv", "--report", "tile,memory")
        for columns in (80, 120):
            code, lines, error = in_terminal(columns, *explain)
            self.assertEqual(code, 0, error)
            self.assertLessEqual(max(map(len, lines)), columns)
        piped = run(*explain, env={name: value for name, value in os.environ.items() if name != "COLUMNS"}).stdout
        self.assertIn("SRAM", piped)
        self.assertGreater(max(map(len, piped.splitlines())), 120)
        narrow = run(*explain, env=os.environ | {"COLUMNS": "80"}).stdout
        self.assertLessEqual(max(map(len, narrow.splitlines())), 80)


def await_handler(process, name=None):
    """Until the process (or, with a name, its child of that name) catches SIGINT; its id."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and process.poll() is None:
        pid = process.pid
        if name:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
                children = file.read().split()
            pid = children[0] if children else None
        try:
            if pid:
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    status = file.read()
                caught = int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16)
                if caught >> (signal.SIGINT - 1) & 1 and (not name or f"Name:\t{name}\n" in status):
                    return int(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.02)
    raise AssertionError(f"{process.args} ended with {process.poll()} or never came to its runs")


class Interrupted(unittest.TestCase):
    """Ctrl-C ends a run early and keeps what was measured and recorded."""

    def setUp(self):
        self.work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(self.work.cleanup)
        self.trace = os.path.join(self.work.name, "t.hputrace")
        # A recipe: a signal while a model is compiled would end that.
        recipes = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(recipes.cleanup)
        recipe = os.path.join(recipes.name, "a.recipe")
        self.assertEqual(run("hpu-compile", MODEL, "--target", "gaudi2", "-o", recipe).returncode, 0)
        self.hpu_run = [os.path.join(BIN, "hpu-run"), recipe, "--input", "zeros", "--iters", "100000000"]

    def start(self, *command):
        # What a shell's background job ignores is not ignored here.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.work.name,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        return process

    def end(self, process, number, pid=None):
        time.sleep(0.5)  # Some runs more.
        os.kill(pid or process.pid, number)
        return process.communicate(timeout=60)

    def check_trace(self):
        self.assertEqual(run("hpu-trace", "validate", self.trace).returncode, 0)
        value = json.loads(run("hpu-trace", "summary", "--json", self.trace).stdout)
        self.assertGreater(value["launches"], 0)
        return value

    def test_hpu_run_writes_the_trace_and_the_times_of_what_ran(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(*self.hpu_run, "--trace", self.trace, "--json")
            await_handler(process)
            out, err = self.end(process, number)
            self.assertEqual(process.returncode, -number, err)
            value = json.loads(out)
            self.assertIs(value["interrupted"], True)
            self.assertEqual(value["signal"], number.name)
            self.assertGreater(value["iterations"], 0)
            self.assertGreater(value["host_latency_ms"]["p50"], 0)
            self.assertIn(f"interrupted by {number.name} after {value['iterations']} of 100000000", err)
            self.assertEqual(self.check_trace()["launches"], value["iterations"])
            self.assertEqual(value["dropped_events"], 0)

    def test_record_keeps_what_was_recorded(self):
        process = self.start(os.path.join(BIN, "hpu-trace"), "record", "-o", self.trace, "--", *self.hpu_run, "--quiet")
        await_handler(process, "hpu-run")
        _, err = self.end(process, signal.SIGINT)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        self.assertIn("ended by signal 2", err)
        self.check_trace()
        self.assertEqual(os.listdir(self.work.name), ["t.hputrace"])

    def test_hpu_verify_says_that_it_was_not_finished(self):
        process = self.start(os.path.join(BIN, "hpu-verify"), MODEL, "--target", "gaudi2", "--per-op", "--data", DIGITS, "--json")
        await_handler(process)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT, err)
        json.loads(out)

    def make_deep(self):
        """deep.onnx: sizes that the search for tiles has work with, minutes at -O3 if nobody stopped it."""
        helper, count = onnx.helper, 120
        rng = np.random.default_rng(1)
        nodes, constants = [], []
        width = [64 + 8 * (k % 40) for k in range(count + 1)]
        for k in range(count):
            weight = rng.random((width[k], width[k + 1]), np.float32)
            constants.append(onnx.numpy_helper.from_array(weight, f"w{k}"))
            nodes += [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"m{k}"], name=f"mm{k}"),
                      helper.make_node("Tanh", [f"m{k}"], [f"x{k + 1}"], name=f"tanh{k}")]
        info = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, "deep", [info("x0", 1, [512, 64])], [info(f"x{count}", 1, [512, width[count]])],
                                  constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, os.path.join(self.work.name, "deep.onnx"))

    @unittest.skipUnless(onnx, "needs Python's onnx")
    def test_hpu_run_and_hpu_verify_end_their_compilation(self):
        self.make_deep()
        runs = (("hpu-run", signal.SIGINT, "nothing was run", ("--trace", "t.hputrace", "--output", "outputs")),
                ("hpu-verify", signal.SIGTERM, "nothing was compared", ("--ref", "interp")),
                ("hpu-run", signal.SIGINT, "nothing was run", ("--json",)))
        for tool, number, what, more in runs:
            process = self.start(os.path.join(BIN, tool), "deep.onnx", "--target", "gaudi2", "-O3", *more)
            await_handler(process)
            time.sleep(0.3)
            os.kill(process.pid, number)
            begin = time.monotonic()
            out, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(process.returncode, -number, err)  # 130 of a shell.
            self.assertIn("interrupted: ending the compilation", err)
            self.assertIn(f"note: interrupted by {number.name} while the model was compiled; {what}", err)
            self.assertNotIn("error:", err)
            self.assertEqual(os.listdir(self.work.name), ["deep.onnx"])
            if "--json" in more:
                value = json.loads(out)
                self.assertEqual((value["interrupted"], value["signal"]), (True, number.name))

    @unittest.skipUnless(onnx, "needs Python's onnx")
    def test_hpu_compile_ends_soon_and_leaves_nothing_in_part(self):
        self.make_deep()
        with open(os.path.join(self.work.name, "deep.recipe"), "w", encoding="utf-8") as file:
            file.write("an older one")
        before = sorted(os.listdir(self.work.name))
        for number, more in ((signal.SIGINT, ("--dump-phases", "dumps")), (signal.SIGTERM, ("--json",))):
            process = self.start(os.path.join(BIN, "hpu-compile"), "deep.onnx", "--target", "gaudi2", "-O3", *more)
            await_handler(process)
            time.sleep(0.3)
            os.kill(process.pid, number)
            begin = time.monotonic()
            out, err = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(process.returncode, -number, err)  # 130 of a shell.
            self.assertIn("interrupted: ending the compilation", err)
            self.assertIn(f"note: interrupted by {number.name}; nothing was written", err)
            self.assertNotIn("error:", err)
            self.assertEqual(sorted(os.listdir(self.work.name)), before)
            if "--json" in more:
                value = json.loads(out)
                self.assertEqual((value["interrupted"], value["signal"]), (True, number.name))
        with open(os.path.join(self.work.name, "deep.recipe"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "an older one")


class Outputs(unittest.TestCase):
    def test_what_cannot_be_written_is_found_before_the_work(self):
        for tool, option, path in (("hpu-run", "--trace", "/no/such/t.hputrace"), ("hpu-run", "--trace", "."),
                                   ("hpu-run", "--trace", MODEL + "/t.json"), ("hpu-run", "--output", MODEL + "/folder"),
                                   ("hpu-run", "--output", "/proc/folder"), ("hpu-compile", "--output", "/no/such/r.recipe"),
                                   ("hpu-compile", "--dump-phases", MODEL)):
            more = ["-o", os.devnull] if option == "--dump-phases" else []
            result = run(tool, MODEL, "--target", "gaudi2", "--quiet", option, path, *more)
            self.assertEqual((result.returncode, result.stdout), (1, ""), (tool, option, path))
            self.assertRegex(result.stderr, rf"\Aerror: {option}: [^\n]+\n\Z")
            # Before the model is read.
            result = run(tool, "/no/such/model.onnx", "--quiet", option, path, *more)
            if option != "--dump-phases":
                self.assertIn(f"error: {option}: ", result.stderr)

    def test_those_of_hpu_trace_and_of_the_simulator_are_found_first_too(self):
        for command in (("timeline", "--draw", "/no/such/dir/x.svg"), ("export", "-o", "/no/such/dir/t.json"),
                        ("merge", "-o", "/no/such/dir/t.hputrace"), ("record", "-o", "/no/such/dir/t.hputrace", "--", "false")):
            # Not that the trace is missing, nor that the command failed.
            more = () if command[0] == "record" else ("/no/such/trace.hputrace",)
            result = run("hpu-trace", *command, *more)
            self.assertEqual((result.returncode, result.stdout), (1, ""), command)
            self.assertRegex(result.stderr, r"\Aerror: --(draw|output): no folder '/no/such/dir'[^\n]*\n\Z", command)
        for option in ("--draw", "--export-schedule", "--export-chakra"):
            result = run("hccl-sim", "all_reduce", "--nodes", "2", "--target", "gaudi2", option, "/no/such/dir/x.svg")
            self.assertEqual((result.returncode, result.stdout), (1, ""), option)
            self.assertIn(f"error: {option}: no folder '/no/such/dir'", result.stderr)

    def test_a_trace_comes_with_what_reads_it(self):
        with tempfile.TemporaryDirectory(prefix="hpu-cli-") as work:
            for name, hint in (("t.json", "ui.perfetto.dev or chrome://tracing"), ("t.pftrace", "ui.perfetto.dev"),
                               ("t.csv", "spreadsheets"), ("t.hputrace", "hpu-trace summary t.hputrace")):
                result = run("hpu-run", MODEL, "--target", "gaudi2", "--trace", name, cwd=work)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertRegex(result.stdout, rf"trace   {name} \([^)]*{re.escape(hint)}")
                self.assertEqual("hpu-trace" in result.stdout, name == "t.hputrace")
                read = run("hpu-trace", "summary", name, cwd=work)
                self.assertEqual(read.returncode, 0 if name == "t.hputrace" else 1, read.stderr)


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
