# SPDX-License-Identifier: Apache-2.0
"""What tests of the Python package share: the package of the build tree, small models, a recipe and a session."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HPU_BINARY_DIR") or os.path.join(ROOT, "build")
sys.path.insert(0, os.path.join(BUILD, "python"))
import openhpu  # noqa: E402

DIGITS = os.path.join(ROOT, "tests", "models", "digits")
MODEL = os.path.join(DIGITS, "model.onnx")
DATA = os.path.join(DIGITS, "test_data_set_0")


def tensor(name):
    return numpy_helper.to_array(onnx.load_tensor(os.path.join(DATA, name)))


def tool(name, *arguments):
    """The JSON of a tool."""
    result = subprocess.run([os.path.join(BUILD, "bin", name), *arguments, "--json"], capture_output=True, text=True,
                            timeout=120, check=False)
    return json.loads(result.stdout)


def model_of(nodes, inputs, outputs):
    """A small model; inputs and outputs as (name, TensorProto type, shape)."""
    info = lambda one: helper.make_tensor_value_info(*one)
    graph = helper.make_graph(nodes, "g", [info(one) for one in inputs], [info(one) for one in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def add_model(kind=TensorProto.FLOAT, shape=(2, 3)):
    return model_of([helper.make_node("Add", ["a", "b"], ["c"])], [("a", kind, shape), ("b", kind, shape)], [("c", kind, shape)])


def long_model(layers=400):
    """One that compiles for long enough to be interrupted."""
    names = ["x"] + [f"y{i}" for i in range(layers)]
    nodes = [helper.make_node("MatMul" if i % 2 else "Softmax", names[i:i + 1] * (1 + i % 2), names[i + 1:i + 2], f"n{i}")
             for i in range(layers)]
    return model_of(nodes, [("x", TensorProto.FLOAT, (256, 256))], [(names[-1], TensorProto.FLOAT, (256, 256))])


class Digits(unittest.TestCase):
    """One recipe and one session for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.images, cls.expected = tensor("input_0.pb"), tensor("output_0.pb")
        cls.recipe = openhpu.compile(MODEL, target="gaudi2", reports=["fusion"])
        cls.session = openhpu.Session(cls.recipe)
        cls.work = tempfile.TemporaryDirectory(prefix="hpu-python-")
        cls.file = os.path.join(cls.work.name, "digits.recipe")
        cls.recipe.save(cls.file)
        cls.run_json = tool("hpu-run", cls.file, "--data", DATA, "--iters", "3", "--warmup", "1", "--output", cls.work.name)
        cls.outputs = np.load(os.path.join(cls.work.name, "output_0.npy"))

    @classmethod
    def tearDownClass(cls):
        cls.session.close()
        cls.work.cleanup()

    @contextlib.contextmanager
    def interrupted(self, seconds):
        """SIGALRM in place of SIGINT: what counts is that a handler which raises ends the wait."""
        def interrupt(*_):
            raise KeyboardInterrupt
        old = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
