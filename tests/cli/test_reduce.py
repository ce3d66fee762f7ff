#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hpu-reduce: twenty planted faults in models of forty nodes come down to three nodes at most, and a text to its lines."""

import os
import tempfile
import unittest

import numpy as np

from cli import onnx, run

NODES = 40


def node(op, inputs, output, **attributes):
    return onnx.helper.make_node(op, inputs, [output], name=output + "_node", **attributes)


def model_with(plant, seed):
    """A model of random elementwise nodes and products on 8x8, in the middle of which `plant(value)` gives nodes whose result is
    "planted", and constants."""
    rng = np.random.default_rng(seed)
    nodes, values = [], ["x", "w"]
    at = int(rng.integers(10, NODES - 10))
    constants = {"w": rng.random((8, 8), np.float32)}
    for i in range(NODES):
        if i == at:
            planted, more = plant(values[-1])
            nodes += planted
            constants |= more
            values.append("planted")
        a, b = values[-1], values[int(rng.integers(len(values)))]
        op = ("Add", "Mul", "MatMul", "Relu", "Tanh", "Sub")[int(rng.integers(6))]
        nodes.append(node(op, [a] if op in ("Relu", "Tanh") else [a, b], f"v{i}"))
        values.append(f"v{i}")
    info = onnx.helper.make_tensor_value_info
    float32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(nodes, "planted", [info("x", float32, [8, 8])], [info(values[-1], float32, [8, 8])],
                                   [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)], ir_version=8)


def unknown(op, **attributes):
    return lambda x: ([onnx.helper.make_node(op, [x], ["planted"], name="fault", **attributes)], {})


def behind(op, message_op="Zork"):
    """The fault is a node behind another one."""
    return lambda x: ([node(op, [x], "before"), onnx.helper.make_node(message_op, ["before"], ["planted"], name="fault")], {})


def constant(op, value):
    return lambda x: ([onnx.helper.make_node(op, [x, "c"], ["planted"], name="fault")], {"c": np.asarray(value)})


# What is planted, and either a text of the failure or a command's words that the file must have.
FAULTS = [
    (unknown("Zork"), "the op is not supported"), (unknown("Frobnicate", axis=3), "Frobnicate 'fault'"),
    (unknown("Own", domain="own"), "ops of the domain 'own'"), (unknown("StringNormalizer"), "StringNormalizer"),
    (behind("Exp"), "Zork 'fault'"), (behind("Sigmoid", "Glorp"), "Glorp 'fault'"), (behind("Neg", "ImageDecoder"), "ImageDecoder"),
    (unknown("Transpose", perm=[0, 0]), "Transpose 'fault'"), (unknown("Softmax", axis=7), "Softmax 'fault'"),
    (unknown("Concat", axis=9), "Concat 'fault'"), (constant("Reshape", np.array([3, 3])), "Reshape 'fault'"),
    (constant("MatMul", np.ones((3, 3), np.float32)), "inner dimensions differ"), (constant("Add", np.ones((3, 3), np.float32)), "Add 'fault'"),
    (constant("Gather", np.array([99])), "index 99"), (constant("Expand", np.array([3, 3])), "Expand 'fault'"),
    (constant("Tile", np.array([1])), "Tile 'fault'"),
    (unknown("Erf"), ["Erf"]), (behind("Exp", "Softplus"), ["Softplus"]),
    (lambda x: ([node("Exp", [x], "p"), node("Neg", ["p"], "q"), node("Erf", ["q"], "planted")], {}), ["Exp", "Neg", "Erf"]),
    (lambda x: ([node("Gelu", [x], "p", domain="com.microsoft"), node("Sigmoid", ["p"], "planted")], {}), ["Gelu", "Sigmoid"]),
]


@unittest.skipUnless(onnx, "needs onnx")
class Reduce(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory(prefix="hpu-cli-")
        self.addCleanup(work.cleanup)
        self.work = work.name

    def test_planted_faults_come_down_to_three_nodes(self):
        self.assertEqual(len(FAULTS), 20)
        for seed, (plant, fault) in enumerate(FAULTS):
            path, small = os.path.join(self.work, f"m{seed}.onnx"), os.path.join(self.work, f"s{seed}.onnx")
            onnx.save(model_with(plant, seed), path)
            if isinstance(fault, str):
                how = ["--message", fault]
            else:
                script = os.path.join(self.work, "has.sh")
                with open(script, "w", encoding="utf-8") as file:
                    file.write("for word in " + " ".join(fault) + '; do grep -aq "$word" "$1" || exit 1; done\n')
                how = ["--test", "sh " + script]
            result = run("hpu-reduce", path, "-o", small, *how)
            self.assertEqual(result.returncode, 0, f"fault {seed}: {result.stderr}")
            left = onnx.load(small).graph
            self.assertLessEqual(len(left.node), 3, f"fault {seed}: {[each.op_type for each in left.node]}")
            again = run("hpu-reduce", small, "-o", small + ".2", *how)
            self.assertEqual(again.returncode, 0, "what is left still fails: " + again.stderr)

    def test_what_does_not_fail_is_said(self):
        path = os.path.join(self.work, "fine.onnx")
        onnx.save(model_with(unknown("Erf"), 1), path)
        for how, words in (([], "does not crash"), (["--message", "Zork"], "with this message"), (["--test", "false"], "did not end with 0")):
            result = run("hpu-reduce", path, *how)
            self.assertEqual(result.returncode, 1)
            self.assertIn(words, result.stderr)
        self.assertEqual(os.listdir(self.work), ["fine.onnx"])

    def test_lines_of_a_text(self):
        path, small = os.path.join(self.work, "m.mlir"), os.path.join(self.work, "s.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                       + "".join(f"  %{i} = hpu.exp {'%x' if i == 0 else f'%{i - 1}'} : tensor<4xf32>\n" for i in range(20))
                       + "  %20 = stablehlo.abs %19 : tensor<4xf32>\n  return %20 : tensor<4xf32>\n}\n")
        result = run("hpu-reduce", path, "-o", small, "--test", "grep -q stablehlo.abs")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(small, encoding="utf-8") as file:
            self.assertEqual(len(file.readlines()), 1)


if __name__ == "__main__":
    unittest.main()
