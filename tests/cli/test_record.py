#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hpu-trace record and HPU_TRACE: what is recorded of a command, and what becomes of its exit code."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from cli import BIN, MODEL, NO_COLUMNS, on_terminal, run


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
            code, lines, error = on_terminal(columns, "hpu-trace", "timeline", self.trace, errors_too=False)
            self.assertEqual(code, 0, error)
            self.assertLessEqual(max(map(len, lines)), columns)
            [launch] = [line for line in lines if line.startswith("launch ")]
            self.assertEqual(len(launch), 8 + bar)
        piped = run("hpu-trace", "timeline", self.trace, env=NO_COLUMNS)
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


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
