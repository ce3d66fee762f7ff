# SPDX-License-Identifier: Apache-2.0
"""Tests of benchmarks/pytorch_models.py with stand-ins for PyTorch: ratios, gates, names that are not there, exit codes."""

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
import pytorch_models  # noqa: E402


class Step:
    """Of a network on a device: takes as long as it is told."""

    def __init__(self, net, device, mode, _tools):
        self.seconds = net[device if device == "cpu" else mode]

    def prepare(self, work):
        del work

    def timed(self, work, steps):
        del steps
        return self.seconds * (2 if work == "train" else 1)

    def host(self, work):
        return self.timed(work, 1) / 10

    def device(self, work):
        return 1e3 * self.timed(work, 1)

    def modules(self):
        return {"body": .6, "gradient/body": .3, "head": .1}


class PytorchModels(unittest.TestCase):
    def run_script(self, nets, *arguments):
        """`nets`: seconds by name and device or mode."""
        hpu_torch = mock.MagicMock()
        hpu_torch.metrics.counts.return_value = {"nodes": 7, "graphs": 1}
        modules = {"torch": mock.MagicMock(), "hpu_torch": hpu_torch, "nets": mock.Mock(MODES=["eager", "lazy"])}
        call = {device: {"min": 1., "median": 2., "max": 3.} for device in ("cpu", "hpu")}
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(pytorch_models, "Run", Step), mock.patch.object(pytorch_models, "networks", lambda *_: nets), \
                mock.patch.object(pytorch_models, "overhead", lambda *_: {"add": call}), mock.patch.dict(sys.modules, modules), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = pytorch_models.main(list(arguments))
        return code, out.getvalue(), err.getvalue()

    def test_ratios_are_the_cpus_time_to_ours(self):
        nets = {"fast": {"cpu": .4, "eager": .2, "lazy": .1}, "slow": {"cpu": .1, "eager": .2, "lazy": .1}}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            code, out, err = self.run_script(nets, "--rounds", "3", "--output", path)
            self.assertEqual(code, 0, err)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertRegex(out, r"fast +train +lazy +800\.00 +200\.00 +4\.00 +4\.00 +4\.00 +20\.00 +200\.000 +7 +1\n")
        self.assertRegex(out, r"slow +infer +eager +100\.00 +200\.00 +0\.50 +0\.50 +0\.50")
        self.assertIn("geomean train eager: 1.00\n", out)
        self.assertAlmostEqual(report["geomean"]["infer lazy"], 2)
        self.assertIn("add on 16 elements, eager: CPU 2.0 us, hpu 2.0 us", out)

    def test_what_is_chosen(self):
        nets = {name: {"cpu": .1, "eager": .1, "lazy": .1} for name in ("one", "two")}
        code, out, _ = self.run_script(nets, "two", "--modes", "lazy", "--only", "infer")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"two +infer +lazy")
        self.assertNotRegex(out, "one|train|eager +")

    def test_time_by_module(self):
        nets = {"one": {"cpu": .1, "eager": .1, "lazy": .1}}
        code, out, _ = self.run_script(nets, "--modules", "2")
        self.assertEqual(code, 0)
        self.assertEqual([line for line in out.splitlines() if line.startswith("one, ")], ["one, lazy:  60.0% body", "one, lazy:  30.0% gradient/body"])
        self.assertNotIn("%", self.run_script(nets)[1])

    def test_a_gate_and_a_wrong_call(self):
        nets = {"one": {"cpu": .1, "eager": .2, "lazy": .1}}
        code, _, err = self.run_script(nets, "--gate", ".9")
        self.assertEqual(code, 2)
        self.assertEqual(err.count("below 0.9"), 2)
        for wrong in (["three"], ["one", "--modes", "hasty"], ["--rounds", "many"]):
            self.assertEqual(self.run_script(nets, *wrong)[0], 1)


if __name__ == "__main__":
    unittest.main()
