#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hpu-compile --inspect: what it says of models that compile, that need sizes, and that do not compile."""

import glob
import json
import os
import tempfile
import unittest

import numpy as np

from cli import DIGITS, MODEL, onnx, ROOT, run


def inspect(path, *arguments):
    result = run("hpu-compile", path, "--inspect", "--json", "--target", "gaudi2", *arguments)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@unittest.skipUnless(onnx, "needs onnx")
class Inspect(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name

    def save(self, nodes, inputs, outputs, constants=()):
        info = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(nodes, "g", [info(*value) for value in inputs], [info(*value) for value in outputs],
                                       [onnx.numpy_helper.from_array(value, name) for name, value in constants])
        path = os.path.join(self.work, "m.onnx")
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    def test_a_model_with_free_dimensions_needs_sizes_for_its_cost(self):
        node = onnx.helper.make_node
        path = self.save([node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["r"]), node("Relu", ["r"], ["y"])],
                         [("x", onnx.TensorProto.FLOAT, ["batch", 16])], [("y", onnx.TensorProto.FLOAT, ["batch", 8])],
                         [("w", np.ones((16, 8), np.float32))])
        free = inspect(path)
        self.assertEqual((free["compiles"], free["needs_sizes"], free["free_dims"]), (False, True, ["batch"]))
        self.assertEqual(free["inputs"], [{"name": "x", "type": "f32", "kind": "tensor", "dims": ["batch", 16], "has_default": False}])
        self.assertEqual([(op["op"], op["count"], op["unsupported"]) for op in free["ops"]], [("MatMul", 1, 0), ("Relu", 2, 0)])
        self.assertEqual(free["weights"], {"tensors": 1, "elements": 128, "bytes": 512})
        sized = inspect(path, "--dim", "batch=32")
        self.assertTrue(sized["compiles"])
        self.assertEqual(sized["macs"], 32 * 16 * 8)
        self.assertGreater(sized["device_time_us"], 0)
        self.assertIn("model of gaudi2", sized["device_time_source"])
        self.assertIsNone(inspect(path, "--dim", "batch=1:32")["macs"])

    def test_what_does_not_compile_is_a_finding(self):
        node = onnx.helper.make_node
        path = self.save([node("Relu", ["x"], ["a"], name="a"), node("Zork", ["a"], ["b"], name="b"), node("Zork", ["b"], ["y"], name="c")],
                         [("x", onnx.TensorProto.FLOAT, [4])], [("y", onnx.TensorProto.FLOAT, [4])])
        value = inspect(path)
        self.assertFalse(value["compiles"])
        self.assertEqual([(entry["op"], entry["node"]) for entry in value["unsupported"]], [("Zork", "b"), ("Zork", "c")])
        self.assertEqual({op["op"]: op["unsupported"] for op in value["ops"]}, {"Relu": 0, "Zork": 2})
        text = run("hpu-compile", path, "--inspect", "--target", "gaudi2")
        self.assertEqual(text.returncode, 0, text.stderr)
        for part in ("input", "Zork", "not supported", "inputs:  a: 4xf32", "help: "):
            self.assertIn(part, text.stdout)
        self.assertFalse(glob.glob(os.path.join(self.work, "*.recipe")))

    def test_convolutions_and_mlir(self):
        value = inspect(MODEL)
        self.assertTrue(value["compiles"])
        model = onnx.load(MODEL)
        self.assertEqual(value["nodes"], len(model.graph.node))
        self.assertEqual(value["weights"]["elements"], sum(int(np.prod(w.dims)) for w in model.graph.initializer) + 8)  # One Constant.
        text = run("hpu-compile", MODEL, "--inspect", "--target", "gaudi2").stdout
        for part in ("multiply-accumulates", "expected device time", "no device was measured"):
            self.assertIn(part, text)
        mlir = os.path.join(self.work, "m.mlir")
        with open(mlir, "w", encoding="utf-8") as file:
            file.write("func.func @main(%a: tensor<4x6xf32>, %b: tensor<6x5xf32>) -> tensor<4x5xf32> {\n"
                       "  %c = hpu.matmul %a, %b : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>\n  return %c : tensor<4x5xf32>\n}\n")
        value = inspect(mlir)
        self.assertEqual((value["format"], value["macs"], value["inputs"][1]["dims"]), ("mlir", 120, [6, 5]))

    def test_free_dimensions_of_the_trained_model_and_every_broken_one(self):
        self.assertTrue(inspect(os.path.join(DIGITS, "model_dynamic.onnx"))["free_dims"])
        for path in glob.glob(os.path.join(ROOT, "tests", "models", "malformed", "*.onnx")):
            result = run("hpu-compile", path, "--inspect", "--json", "--target", "gaudi2")
            self.assertIn(result.returncode, (0, 1), path)
            value = json.loads(result.stdout)
            self.assertTrue(value["error"] if result.returncode else value["reason"], path)

    def test_nothing_is_written(self):
        for option in (("-o", os.path.join(self.work, "x.recipe")), ("--report", "time"), ("--stop-after", "import")):
            result = run("hpu-compile", MODEL, "--inspect", *option)
            self.assertEqual(result.returncode, 1)
            self.assertIn("--inspect", result.stderr)
        self.assertEqual(os.listdir(self.work), [])


if __name__ == "__main__":
    unittest.main()
