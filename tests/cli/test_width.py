#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every tool on a terminal of 80 columns: no line is longer, no number is cut, and nothing is changed on a pipe."""

import os
import re
import subprocess
import sys
import tempfile
import unicodedata
import unittest

from cli import BIN, DIGITS, MODEL, NO_COLUMNS, on_terminal, run

UNITS = r"(?:%|ps|ns|us|ms|s|B|KiB|MiB|GiB|GB/s|TFLOPS)"
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


def columns_of(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def on_pipe(tool, *arguments, **options):
    return run(tool, *arguments, env=NO_COLUMNS, **options)


class Widths(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-width-")
        self.addCleanup(work.cleanup)
        self.work = work.name

    def fits(self, tool, *arguments, code=0, columns=80, same=False):
        """Runs it on a terminal. `same`: it prints the same figures in every run, so none may be in part."""
        got, lines, _ = on_terminal(columns, tool, *arguments, cwd=self.work)
        shown = " ".join((tool, *arguments)) + "\n" + "\n".join(lines)
        self.assertEqual(got, code, shown)
        for line, after in zip(lines, [*lines[1:], ""]):
            self.assertLessEqual(columns_of(line), columns, shown)
            if re.search(r"(?:^|\s)[+-]?[\d.]+$", line):
                self.assertNotRegex(after, rf"^\s*{UNITS}(?:[\s,;.)]|$)", shown)
        if same:
            wide = set(NUMBER.findall(on_pipe(tool, *arguments, cwd=self.work).stdout))
            # What a table has no room for has numbers of its own, and so has progress.
            text = re.sub(r"\((?:no room|in parts) .*?--json[^)]*\)", "", "\n".join(lines), flags=re.DOTALL)
            for line in text.splitlines():
                if line.startswith("pricing "):
                    continue
                for word in re.split(r"[\s(),;:]+", line):
                    if NUMBER.fullmatch(word):
                        self.assertIn(word, wide, shown)
        return lines

    def record(self):
        trace = os.path.join(self.work, "a.hputrace")
        if not os.path.exists(trace):
            for name in ("a", "b"):
                result = on_pipe("hpu-run", MODEL, "--target", "gaudi2", "--data", DIGITS, "--iters", "2", "--trace",
                                 f"{name}.hputrace", cwd=self.work)
                self.assertEqual(result.returncode, 0, result.stderr)
        return trace

    def test_hpu_compile(self):
        reports = "precision,fusion,layout,tile,memory,schedule,time"
        lines = self.fits("hpu-compile", MODEL, "-o", "m.recipe", "--target", "gaudi2", "--report", reports)
        self.assertTrue(any(line.startswith("  import") for line in lines), "phases are shown as they are done")
        self.fits("hpu-compile", MODEL, "-o", "m.recipe", "--report", reports, "--precision", "bf16", columns=60)
        self.fits("hpu-compile", MODEL, "-o", "m.recipe", "--target", "gaudi2", "--explain", "features.0.0/Conv")
        self.fits("hpu-compile", "--list-targets", same=True)
        self.fits("hpu-compile", "--estimate-gemm", "4096x4096x4096:bf16", "--target", "gaudi2", same=True)
        self.fits("hpu-compile", "--list-ops")

    def test_errors_and_notes_go_on_in_the_next_line(self):
        lines = self.fits("hpu-compile", "/no/such/folder/with/a/name/that/is/rather/long/and/goes/on/and/on/model.onnx",
                          code=1)
        [first] = [i for i, line in enumerate(lines) if line.startswith("error: ")]
        self.assertGreater(len(lines) - first, 1, "on a pipe it is one line")
        result = on_pipe("hpu-compile", "/no/such/folder/with/a/name/that/is/rather/long/and/goes/on/and/on/model.onnx",
                         "--quiet", cwd=self.work)
        self.assertRegex(result.stderr, r"\Aerror: [^\n]+\n\Z")
        self.fits("hpu-trace", "summry", code=1)
        self.fits("hccl-perf", "all_reduce", "--ranks", "99", code=1)

    def test_hpu_run_and_hpu_verify(self):
        self.fits("hpu-run", MODEL, "--target", "gaudi2", "--data", DIGITS, "--iters", "3", "--percentile", "95", "--trace",
                  "t.json", "--output", "out")
        self.fits("hpu-run", MODEL, "--target", "gaudi2", "--input", "zeros", columns=50)
        self.fits("hpu-verify", MODEL, "--target", "gaudi2", "--data", DIGITS)
        lines = self.fits("hpu-verify", MODEL, "--target", "gaudi2", "--data", DIGITS, "--per-op")
        self.assertTrue(any(line.startswith("unit ") for line in lines))

    def test_hpu_trace(self):
        trace = self.record()
        for verb in ("summary", "top", "timeline", "roofline", "memory", "overlap", "critical-path", "info", "validate"):
            for columns in (80, 60, 100):
                # A timeline's axis depends on the width, and so do its shares of a column.
                self.fits("hpu-trace", verb, trace, columns=columns, same=verb != "timeline")
        self.fits("hpu-trace", "top", trace, "--group-by", "node", "-n", "30", same=True)
        # Names that begin and end alike are told apart, before what says the same again.
        for command in (("top", trace), ("critical-path", trace), ("timeline", trace), ("roofline", trace)):
            text = "\n".join(self.fits("hpu-trace", *command))
            for name in ("es.0.2/Relu", "es.1.2/Relu", "es.3.2/Relu"):
                self.assertIn(name, text, command)
        self.assertNotRegex("\n".join(self.fits("hpu-trace", "diff", trace, "b.hputrace")), r"[+-]0\.0 %")
        self.fits("hpu-trace", "timeline", trace, "--slices", "20", "--draw", "t.svg")
        self.fits("hpu-trace", "critical-path", trace, "--chain", same=True)
        self.fits("hpu-trace", "diff", trace, "b.hputrace", same=True)
        self.fits("hpu-trace", "merge", trace, "b.hputrace", "-o", "c.hputrace")
        self.fits("hpu-trace", "export", trace, "--format", "csv", "-o", "t.csv")
        self.fits("hpu-trace", "record", "-o", "r.hputrace", "--", os.path.join(BIN, "hpu-run"), MODEL, "--target",
                  "gaudi2", "--input", "zeros")

    def test_a_table_says_what_it_has_no_room_for(self):
        trace = self.record()
        narrow = "\n".join(self.fits("hpu-trace", "roofline", trace))
        found = re.search(r"\(no room for ([^:]*): a terminal of (\d+) columns, COLUMNS=\2 or --json\)",
                          " ".join(narrow.split()))
        self.assertTrue(found, narrow)
        self.assertIn("SRAM GB/s", found.group(1))
        whole = "\n".join(self.fits("hpu-trace", "roofline", trace, columns=int(found.group(2))))
        self.assertIn("SRAM GB/s", whole)
        self.assertNotIn("no room", whole)
        self.assertNotIn("…", on_pipe("hpu-trace", "roofline", trace).stdout)
        # COLUMNS is obeyed on a pipe, too.
        result = subprocess.run([os.path.join(BIN, "hpu-trace"), "roofline", trace], capture_output=True, text=True,
                                timeout=200, check=True, env=NO_COLUMNS | {"COLUMNS": "80"})
        self.assertLessEqual(max(map(columns_of, result.stdout.splitlines())), 80)

    def test_nothing_is_cut_on_a_pipe(self):
        trace = self.record()
        for command in (("top", trace, "-n", "1000"), ("timeline", trace, "--slices", "50"), ("critical-path", trace)):
            text = on_pipe("hpu-trace", *command).stdout
            self.assertNotIn("…", text, command)
            if command[0] != "timeline":  # Whose bars have points.
                self.assertNotRegex(text, r"\w\.\.\.|\.\.\.\w", command)

    def test_hccl_perf(self):
        for arguments in (("all_reduce", "--ranks", "8", "--no-data", "--min-bytes", "1K", "--max-bytes", "1G", "--factor",
                           "32", "--target", "gaudi2"),
                          ("all_gather", "--ranks", "4", "--no-data", "--explain", "--target", "gaudi3")):
            self.fits("hccl-perf", *arguments, same=True)
        lines = self.fits("hccl-perf", "all_reduce", "--ranks", "2", "--min-bytes", "1K", "--max-bytes", "64K", "--iters", "2", "--threads",
                          "--target", "gaudi2")
        self.assertTrue(any("wall time" in line and "#wrong" in line and "device time" in line for line in lines), lines)
        piped = on_pipe("hccl-perf", "all_reduce", "--ranks", "8", "--no-data", "--target", "gaudi2").stdout
        self.assertIn("#        size         count      type  redop  root  place", piped)

    def test_hccl_sim(self):
        job = ("all_reduce", "--target", "gaudi2", "--nodes")
        for arguments in ((*job, "16", "--bytes", "64M"), (*job, "16", "--min-bytes", "1K", "--max-bytes", "1G"),
                          (*job, "4", "--bytes", "1M", "--compare", "all"), (*job, "2,4,16", "--min-bytes", "1M", "--max-bytes", "4M"),
                          (*job, "4", "--bytes", "1M", "--what-if", "slow-node=1:0.5,rails-down=2:1"),
                          (*job, "4", "--bytes", "1M", "--sweep", "oversubscription=1,2,4,8")):
            self.fits("hccl-sim", *arguments, same=True)
        # Host times differ.
        self.fits("hccl-sim", *job, "16", "--bytes", "64M", "--explain")
        self.fits("hccl-sim", *job, "4", "--bytes", "1M", "--compare", "all", columns=60, same=True)

    def test_hpu_smi(self):
        for arguments in ((), ("-L",), ("-q",), ("--topology",), ("--fw-versions",), ("--nic", "link")):
            for columns in (80, 60):
                self.fits("hpu-smi", *arguments, columns=columns)

    def test_helps(self):
        for tool in ("hpu-compile", "hpu-run", "hpu-verify", "hpu-trace", "hpu-smi", "hccl-perf", "hccl-sim"):
            self.fits(tool, "--help")
            self.fits(tool, "--help", columns=60)
        for verb in ("summary", "top", "timeline", "roofline", "memory", "overlap", "critical-path", "diff", "merge", "export",
                     "info", "validate", "record"):
            self.fits("hpu-trace", verb, "--help")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
