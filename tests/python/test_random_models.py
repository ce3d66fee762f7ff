# SPDX-License-Identifier: Apache-2.0
"""Tests of the random models: are they reproducible and what ONNX says they are, is a failure found
and cut down? A stand-in for hpu-verify reads the model and complains about what it is told to."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest

import onnx

try:
    import torch  # noqa: F401
except ImportError:
    print("skipped: there is no torch")
    sys.exit(0)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import random_models  # noqa: E402

STAND_IN = """#!{python}
import json, sys
import onnx
ops = {{node.op_type for node in onnx.load(sys.argv[1]).graph.node}}
bad = {bad!r} in ops
code = {code} if bad else 0
if code in (0, 2):
    print(json.dumps({{"passed": code == 0, "outputs": [dict(
        name="o", passed=not bad, wrong=int(bad), count=1, max_abs=1.0, rms_ratio=1.0)]}}))
else:
    print("error: no kernel for a " + {bad!r}, file=sys.stderr)
sys.exit(code)
"""


class Models(unittest.TestCase):
    def test_a_seed_gives_the_same_model_and_numbers_again(self):
        first, second = (random_models.generate(7, list(random_models.OPS)) for _ in range(2))
        self.assertEqual(first.flags, second.flags)
        values = [model.graph.evaluate() for model in (first, second)]
        models = [model.graph.to_onnx(v) for model, v in zip((first, second), values)]
        self.assertEqual(*(model.SerializeToString() for model in models))

    def test_onnx_infers_the_shapes_that_torch_computes(self):
        ranks, ops = set(), set()
        for seed in range(1, 41):
            graph = random_models.generate(seed, list(random_models.OPS)).graph
            values = graph.evaluate()
            model = graph.to_onnx(values)
            onnx.checker.check_model(model)
            inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
            # Old versions of onnx forget ceil_mode.
            rounded = {output for node in model.graph.node for output in node.output
                       if any(a.name == "ceil_mode" and a.i for a in node.attribute)}
            if rounded:
                continue
            for info in inferred.graph.value_info:
                shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
                if all(dim.HasField("dim_value") for dim in info.type.tensor_type.shape.dim):
                    self.assertEqual(shape, list(values[info.name].shape), f"seed {seed} {info.name}")
            ranks.update(value.dim() for value in values.values())
            ops.update(node.op for node in graph.nodes)
        self.assertEqual(ranks, set(range(9)))
        self.assertGreater(len(ops), 40)


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="test-random-models-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.keep = os.path.join(self.folder, "kept")

    def run_script(self, bad, code, *arguments):
        path = os.path.join(self.folder, "bin", "hpu-verify")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(STAND_IN.format(python=sys.executable, bad=bad, code=code))
        os.chmod(path, 0o755)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            result = random_models.main(["--build", self.folder, "--keep", self.keep, *arguments])
        return result, out.getvalue()

    def test_models_that_verify_leave_nothing(self):
        code, text = self.run_script("NoSuchOp", 3, "--count", "2")
        self.assertEqual((code, os.path.exists(self.keep)), (0, False), text)

    def test_a_wrong_result_is_cut_down_to_its_node(self):
        code, text = self.run_script("Softmax", 2, "--count", "1", "--ops", "softmax,unary,transpose",
                                     "--seed", self.seed_with("Softmax"))
        self.assertEqual(code, 2, text)
        folder, = os.listdir(self.keep)
        folder = os.path.join(self.keep, folder)
        graph = onnx.load(os.path.join(folder, "model.onnx")).graph
        self.assertEqual([node.op_type for node in graph.node], ["Softmax"])
        self.assertTrue(os.path.exists(os.path.join(folder, "test_data_set_0", "output_0.pb")))
        with open(os.path.join(folder, "command.txt"), encoding="utf-8") as file:
            self.assertIn("hpu-verify model.onnx", file.read())

    def test_a_refusal_is_told_and_many_are_a_failure(self):
        code, text = self.run_script("Transpose", 1, "--count", "1", "--ops", "transpose")
        self.assertEqual(code, 0, text)
        self.assertIn("1 refused", text)
        code, text = self.run_script("Transpose", 1, "--count", "4", "--ops", "transpose")
        self.assertEqual(code, 2, text)

    def test_crashes_are_failures_of_the_tool(self):
        for tool_code in (3, 139):
            code, text = self.run_script("Transpose", tool_code, "--count", "1", "--ops", "transpose")
            self.assertEqual(code, 3, text)

    def test_unknown_ops_are_a_user_error(self):
        with self.assertRaises(SystemExit) as stop:
            self.run_script("NoSuchOp", 3, "--ops", "softmax,conv4d")
        self.assertEqual(stop.exception.code, 1)

    @staticmethod
    def seed_with(op):
        """The first seed whose model, of the same ops, has this node among others."""
        for seed in range(1, 100):
            graph = random_models.generate(seed, ["softmax", "unary", "transpose"]).graph
            if len(graph.nodes) > 3 and any(node.op == op for node in graph.nodes):
                return str(seed)
        raise AssertionError(f"no seed below 100 has a {op}")


if __name__ == "__main__":
    unittest.main()
