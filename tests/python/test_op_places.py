# SPDX-License-Identifier: Apache-2.0
"""Every elementwise op has its line in each of the places that docs/adding-an-op.md names."""
import glob
import os
import re
import unittest

ROOT = os.environ.get("HPU_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "../..")

# The places, in the order of the document. {op} is the mnemonic, {cls} the C++ class.
PLACES = {
    "compiler/dialect/hpu/InferElementwise.cpp": r"HPU_INFER_\w+\({cls}\)|\b{cls}::inferReturnTypes",
    "compiler/interp/Elementwise.cpp": r'"{op}"|<{cls}>|\b{cls}\b',
    "compiler/kernels/ElementwiseOps.cpp": r'\{{kind<{cls}>\(\), \d,',
}
# The last place: who makes the op, an ONNX converter, a pattern of normalize or the lowering of SynapseAI's nodes.
MAKERS = "compiler/import/Convert*.cpp", "compiler/normalize/*.cpp", "src/bindings/synapse/lowering/*.cpp"
MADE = r'"{op}"|\b{cls}::create'
# No exporter has a node for these: users of hpu::Graph add them by name.
BY_NAME = "erf_inv", "lgamma"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def elementwise_ops():
    """(class, mnemonic) of each op in HpuElementwise.td."""
    return re.findall(r'^def Hpu_(\w+Op) : Hpu_\w+<"(\w+)"', read("compiler/dialect/hpu/HpuElementwise.td"), re.M)


class OpPlaces(unittest.TestCase):
    def check(self, text, pattern, where):
        missing = [op for cls, op in elementwise_ops() if not re.search(pattern.format(op=op, cls=cls), text)]
        self.assertEqual(missing, [], f"ops without a line in {where}")

    def test_the_dialect_has_elementwise_ops(self):
        ops = dict(elementwise_ops())
        self.assertGreater(len(ops), 40)
        self.assertEqual(ops["ReluOp"], "relu")
        self.assertEqual(ops["WhereOp"], "where")

    def test_every_op_has_a_line_in_each_place(self):
        for path, pattern in PLACES.items():
            with self.subTest(path):
                self.check(read(path), pattern, path)

    def test_every_op_is_made_by_import_or_normalize(self):
        text = "".join(read(path) for pattern in MAKERS for path in sorted(glob.glob(os.path.join(ROOT, pattern))))
        text += "".join(f'"{op}"' for op in BY_NAME)
        self.check(text, MADE, " and ".join(MAKERS))

    def test_the_document_names_the_places(self):
        text = read("docs/adding-an-op.md")
        for path in ["compiler/dialect/hpu/HpuElementwise.td", *PLACES, "compiler/import/ConvertActivation.cpp"]:
            self.assertIn(path, text)

    def test_an_op_without_lines_would_be_found(self):
        with self.assertRaises(AssertionError):
            self.check(read("compiler/kernels/ElementwiseOps.cpp").replace("{kind<ReluOp>(), 1", "{kind<OtherOp>(), 1"),
                       PLACES["compiler/kernels/ElementwiseOps.cpp"], "a changed file")


if __name__ == "__main__":
    unittest.main()
