# SPDX-License-Identifier: Apache-2.0
"""Custom ops in object code: among other ops, with free sizes, in other precisions, and what is refused of them."""
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from openhpu_cases import openhpu

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FLAGS = ["-O2", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-fno-builtin", "-fno-jump-tables", "-I", os.path.join(ROOT, "include")]
SCAN = """
#include <hpu/kernel.h>
static const float scale[2] = {1.0f, DOUBLE};
void row_scan(const struct HpuKernelArgs* args) {
  const int64_t* dims = args->dims;
  union { int64_t bits; double value; } decay = {dims[8]};
  for (int64_t i = args->lo[0]; i < args->hi[0]; ++i) {
    const float* x = (const float*)args->buffers[0] + i * dims[2];
    float* y = (float*)args->buffers[1] + i * dims[6];
    float sum = 0;
    for (int64_t j = 0; j < dims[1]; ++j) y[j * dims[7]] = sum = scale[dims[9] != 0] * x[j * dims[3]] + (float)decay.value * sum;
  }
}
"""
WRITES = SCAN + "float table[4]; void writes(const struct HpuKernelArgs* args) { table[args->lo[0] & 3] += 1; }"
CALLS = "#include <string.h>\n" + SCAN + "int more(const char* text) { return (int)strlen(text); }"
OPS = """
module attributes {hpu.custom_ops = 1 : i64} {
  func.func private @row_scan(tensor<?x?xf32>, f32 {hpu.attribute = "decay"}, i64 {hpu.attribute = "twice", hpu.default = 0 : i64})
      -> tensor<?x?xf32> attributes {hpu.op = "my.ops::RowScan", hpu.object = "scan.o", hpu.entry = "ENTRY",
      hpu.sizes = affine_map<(m, n) -> (m, n)>, hpu.reads = [0, 1], hpu.whole_dims = [1], hpu.cost = {COST}}
}
"""


def expected(x, decay, factor=1):
    rows = np.zeros_like(x)
    before = np.zeros(x.shape[0], np.float32)
    for j in range(x.shape[1]):
        rows[:, j] = before = np.float32(factor) * x[:, j] + np.float32(decay) * before
    return rows


@unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
class CustomKernels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="hpu-custom-kernels-")
        self.addCleanup(self.folder.cleanup)
        self.random = np.random.default_rng(5)

    def plugin(self, entry="row_scan", cost="loads = 0.02, stores = 0.02, scalar = 2.0", factor="2.0f", source=SCAN, flags=()):
        at = lambda name: os.path.join(self.folder.name, name)
        with open(at("scan.c"), "w", encoding="utf-8") as file:
            file.write(source.replace("DOUBLE", factor))
        subprocess.run(["cc", *FLAGS, *flags, "-c", at("scan.c"), "-o", at("scan.o")], check=True)
        with open(at("ops.mlir"), "w", encoding="utf-8") as file:
            file.write(OPS.replace("ENTRY", entry).replace("COST", cost))
        return at("ops.mlir")

    @staticmethod
    def model(nodes, shape, constants=()):
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(v, n) for n, v in constants])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)],
                                 ir_version=8).SerializeToString()

    @staticmethod
    def scan(x, y, **attributes):
        return helper.make_node("RowScan", [x], [y], name="scan", domain="my.ops", decay=0.5, **attributes)

    def noise(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def test_between_other_ops_and_views(self):
        w = self.noise(64, 48) / 8
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["r"]), self.scan("r", "s", twice=1),
                 helper.make_node("Abs", ["s"], ["a"]), helper.make_node("Transpose", ["a"], ["y"])]
        for precision, tolerance in (("f32", 1e-5), ("bf16", 3e-2)):
            recipe = openhpu.compile(self.model(nodes, [200, 64], [("w", w)]), cache="", plugins=self.plugin(), precision=precision)
            x = self.noise(200, 64)
            with openhpu.Session(recipe) as session:
                [y] = session.run(x)
            np.testing.assert_allclose(y, np.abs(expected(np.maximum(x @ w, 0), 0.5, 2)).T, rtol=tolerance, atol=tolerance)

    def test_of_a_transposed_operand(self):
        nodes = [helper.make_node("Transpose", ["x"], ["t"]), self.scan("t", "s"), helper.make_node("Transpose", ["s"], ["y"])]
        x = self.noise(33, 70)
        with openhpu.Session(openhpu.compile(self.model(nodes, [33, 70]), cache="", plugins=self.plugin())) as session:
            np.testing.assert_allclose(session.run(x)[0], expected(x.T, 0.5).T, rtol=1e-6, atol=1e-6)

    def test_of_free_sizes(self):
        recipe = openhpu.compile(self.model([self.scan("x", "s"), helper.make_node("Exp", ["s"], ["y"])], ["rows", "columns"]), cache="",
                                 plugins=self.plugin(), dims={"rows": (1, 300), "columns": (1, 90)})
        with openhpu.Session(recipe) as session:
            for shape in ((1, 1), (7, 90), (300, 33)):
                x = self.noise(*shape)
                np.testing.assert_allclose(session.run(x)[0], np.exp(expected(x, 0.5)), rtol=1e-5)

    def test_costs_what_it_says(self):
        times = []
        for scalar in (1, 100):
            recipe = openhpu.compile(self.model([self.scan("x", "y")], [512, 512]), cache="", plugins=self.plugin(cost=f"scalar = {scalar}.0"))
            times.append(recipe.estimated_device_time_us)
        self.assertGreater(times[1], 10 * times[0])

    def test_the_cache_knows_the_object(self):
        x = self.noise(4, 5)
        with tempfile.TemporaryDirectory() as cache:
            for factor in (2, 3):
                recipe = openhpu.compile(self.model([self.scan("x", "y", twice=1)], [4, 5]), cache=cache, plugins=self.plugin(factor=f"{factor}.0f"))
                with openhpu.Session(recipe) as session:
                    np.testing.assert_allclose(session.run(x)[0], expected(x, 0.5, factor), rtol=1e-6)

    def test_what_is_refused(self):
        model = self.model([self.scan("x", "y")], [4, 5])
        for plugin, why in ((lambda: self.plugin(source=WRITES), "writable data"), (lambda: self.plugin(entry="other"), "no function other"),
                            (lambda: self.plugin(source=CALLS), "'strlen', which it does not hold"),
                            (lambda: self.plugin(cost="scalar = -1.0"), "'scalar' is no number"), (lambda: self.plugin(cost="scalars = 1.0"), "has no 'scalars'")):
            with self.subTest(why=why):
                self.assertRaisesRegex(openhpu.Error, why, openhpu.compile, model, cache="", plugins=plugin())


if __name__ == "__main__":
    unittest.main()
