# SPDX-License-Identifier: Apache-2.0
"""Inputs with defaults: initializers that a model lists as inputs, too. In the Python package and in hpu-run."""

import os
import subprocess
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from openhpu_cases import BUILD, openhpu


def scaled_model():
    """y = x * scale + shift: both are initializers, and inputs."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [2, 3]), ("scale", [3]), ("shift", [1]))]
    values = [numpy_helper.from_array(np.array([1, 2, 3], np.float32), "scale"), numpy_helper.from_array(np.array([10], np.float32), "shift")]
    nodes = [helper.make_node("Mul", ["x", "scale"], ["s"]), helper.make_node("Add", ["s", "shift"], ["y"])]
    graph = helper.make_graph(nodes, "scaled", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])], values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Defaults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x = np.arange(6, dtype=np.float32).reshape(2, 3)
        cls.scale = np.array([1, 2, 3], np.float32)
        cls.recipe = openhpu.compile(scaled_model(), shapes={"scale": [3]})

    def test_only_named_ones_are_inputs_and_have_their_values(self):
        self.assertEqual([info.name for info in self.recipe.inputs], ["x", "scale"])
        self.assertEqual(list(self.recipe.defaults), ["scale"])
        np.testing.assert_array_equal(self.recipe.defaults["scale"], self.scale)

    def test_a_run_takes_what_it_is_given_or_the_default(self):
        session = openhpu.Session(self.recipe)
        np.testing.assert_array_equal(session.run({"x": self.x})["y"], self.x * self.scale + 10)
        other = np.array([5, 6, 7], np.float32)
        np.testing.assert_array_equal(session.run({"x": self.x, "scale": other})["y"], self.x * other + 10)
        np.testing.assert_array_equal(session.run({"x": self.x})["y"], self.x * self.scale + 10)
        with self.assertRaises(openhpu.InvalidArgumentError):
            session.run({"scale": other})

    def test_defaults_are_in_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scaled.recipe")
            self.recipe.save(path)
            again = openhpu.load(path)
            np.testing.assert_array_equal(again.defaults["scale"], self.scale)
            # hpu-run: x from a file, scale as it is; then both.
            for name, value in (("x", self.x), ("scale", 2 * self.scale)):
                np.save(os.path.join(folder, f"{name}.npy"), value)
            for inputs, scale in ((["x"], self.scale), (["x", "scale"], 2 * self.scale)):
                out = os.path.join(folder, "out")
                given = [f"--input={name}=@{folder}/{name}.npy" for name in inputs]
                subprocess.run([os.path.join(BUILD, "bin", "hpu-run"), path, *given, "--output", out], check=True, capture_output=True)
                [file] = [os.path.join(out, name) for name in os.listdir(out)]
                result = np.load(file) if file.endswith(".npy") else numpy_helper.to_array(onnx.load_tensor(file))
                np.testing.assert_array_equal(result, self.x * scale + 10)

    def test_every_one_that_is_named_has_one(self):
        recipe = openhpu.compile(scaled_model(), shapes={"shift": [1], "scale": [3]})
        self.assertEqual(sorted(recipe.defaults), ["scale", "shift"])


if __name__ == "__main__":
    unittest.main()
