#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in each tool that works for long: what was measured is kept, nothing is left in part."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

from cli import BIN, DIGITS, MODEL, onnx, run


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

    pauses = (0.5, 2, 8, 30)  # Seconds to the signal; the next one when nothing had run.
    pause = pauses[0]

    def start(self, *command):
        # What a shell's background job ignores is not ignored here.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.work.name,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        return process

    def end(self, process, number, pid=None):
        time.sleep(self.pause)  # Until the first run, and some runs more.
        os.kill(pid or process.pid, number)
        return process.communicate(timeout=60)

    def check_trace(self):
        self.assertEqual(run("hpu-trace", "validate", self.trace).returncode, 0)
        value = json.loads(run("hpu-trace", "summary", "--json", self.trace).stdout)
        self.assertGreater(value["launches"], 0)
        return value

    def test_hpu_run_writes_the_trace_and_the_times_of_what_ran(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for self.pause in self.pauses:
                process = self.start(*self.hpu_run, "--trace", self.trace, "--json")
                await_handler(process)
                out, err = self.end(process, number)
                self.assertEqual(process.returncode, -number, err)
                value = json.loads(out)
                if value["iterations"] > 0:
                    break
            self.assertIs(value["interrupted"], True)
            self.assertEqual(value["signal"], number.name)
            self.assertGreater(value["iterations"], 0)
            self.assertGreater(value["host_latency_ms"]["p50"], 0)
            self.assertIn(f"interrupted by {number.name} after {value['iterations']} of 100000000", err)
            self.assertEqual(self.check_trace()["launches"], value["iterations"])
            self.assertEqual(value["dropped_events"], 0)

    def test_hpu_run_says_in_json_that_nothing_was_run(self):
        """At once when the handlers are there: it reads its inputs, or opens the device."""
        numbers = os.path.join(self.work.name, "n.npy")
        np.save(numbers, np.zeros((360, 1, 8, 8), np.float32))
        command = [one.replace("zeros", f"image=@{numbers}") for one in self.hpu_run]
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start(*command, "--json")
            await_handler(process)
            os.kill(process.pid, number)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number, err)
            value = json.loads(out)
            self.assertEqual((value["interrupted"], value["signal"]), (True, number.name))
            self.assertIn("iterations", value)

    def test_the_first_signal_ends_the_wait_for_the_reader_of_a_pipe(self):
        pipe = os.path.join(self.work.name, "pipe")
        os.mkfifo(pipe)
        commands = (([os.path.join(BIN, "hpu-compile"), MODEL, "-o", pipe], "nothing was written"),
                    ([*self.hpu_run[:-1], "1", "--trace", pipe], "the trace was not written"))
        for command, words in commands:
            process = self.start(*command, "--json")
            await_handler(process)
            time.sleep(1)  # Whatever it does then: it ends.
            os.kill(process.pid, signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -signal.SIGTERM, err)
            self.assertIs(json.loads(out)["interrupted"], True)
            if "nothing was run" not in err:  # A slow machine had not come to the pipe.
                self.assertIn(words, err)
            with open(pipe, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
                self.assertEqual(file.read() or b"", b"")
        # One that comes late is waited for.
        process = self.start(os.path.join(BIN, "hpu-compile"), MODEL, "--quiet", "-o", pipe)
        await_handler(process)
        with open(pipe, "rb") as file:
            self.assertGreater(len(file.read()), 1000)
        self.assertEqual((process.communicate(timeout=60), process.returncode), (("", ""), 0))

    def test_record_keeps_what_was_recorded(self):
        for self.pause in self.pauses:
            process = self.start(os.path.join(BIN, "hpu-trace"), "record", "-o", self.trace, "--", *self.hpu_run, "--quiet")
            await_handler(process, "hpu-run")
            _, err = self.end(process, signal.SIGINT)
            if json.loads(run("hpu-trace", "summary", "--json", self.trace).stdout).get("launches"):
                break
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

    def interrupt(self, tool, number, more, what):
        """A compilation of deep.onnx that the signal ends: standard output."""
        process = self.start(os.path.join(BIN, tool), "deep.onnx", "--target", "gaudi2", "-O3", *more)
        await_handler(process)
        time.sleep(0.3)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -number, err)  # 130 of a shell.
        self.assertIn("interrupted: ending the compilation", err)
        self.assertIn(f"note: interrupted by {number.name}{what}", err)
        self.assertNotIn("error:", err)
        return out

    @unittest.skipUnless(onnx, "needs Python's onnx")
    def test_hpu_run_and_hpu_verify_end_their_compilation(self):
        self.make_deep()
        runs = (("hpu-run", signal.SIGINT, "nothing was run", ("--trace", "t.hputrace", "--output", "outputs")),
                ("hpu-verify", signal.SIGTERM, "nothing was compared", ("--ref", "interp")),
                ("hpu-run", signal.SIGINT, "nothing was run", ("--json",)))
        for tool, number, what, more in runs:
            out = self.interrupt(tool, number, more, f" while the model was compiled; {what}")
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
            out = self.interrupt("hpu-compile", number, more, "; nothing was written")
            self.assertEqual(sorted(os.listdir(self.work.name)), before)
            if "--json" in more:
                value = json.loads(out)
                self.assertEqual((value["interrupted"], value["signal"]), (True, number.name))
        with open(os.path.join(self.work.name, "deep.recipe"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "an older one")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
