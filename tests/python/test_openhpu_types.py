# SPDX-License-Identifier: Apache-2.0
"""The Python package: types of arrays, and the stubs of its functions."""

import ast
import inspect
import os
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from openhpu_cases import add_model, BUILD, model_of, openhpu


class Types(unittest.TestCase):
    def test_every_type_of_numpy_goes_in_and_out(self):
        for kind in (np.float32, np.float16, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64,
                     np.uint64, np.bool_):
            onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind)) if hasattr(helper, "np_dtype_to_tensor_dtype") \
                else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(kind)]
            model = model_of([helper.make_node("Transpose", ["a"], ["c"], perm=[1, 0])],
                             [("a", onnx_type, (2, 3))], [("c", onnx_type, (3, 2))])
            value = (np.arange(6).reshape(2, 3) % 2 if kind is np.bool_ else np.arange(6).reshape(2, 3)).astype(kind)
            with self.subTest(kind=kind.__name__):
                try:
                    recipe = openhpu.compile(model)
                except openhpu.UnimplementedError:
                    continue  # A type that the compiler refuses by name.
                [out] = openhpu.Session(recipe).run(value)
                self.assertEqual(out.dtype, np.dtype(kind))
                np.testing.assert_array_equal(out, value.T)

    def test_bf16_is_float32_or_bits(self):
        recipe = openhpu.compile(add_model(TensorProto.BFLOAT16))
        self.assertEqual([one.dtype for one in recipe.inputs + recipe.outputs], ["bf16"] * 3)
        session = openhpu.Session(recipe)
        a, b = np.float32([[1, 2, 3], [3e4, -4, 0.1]]), np.float32([[1, 1, 1], [3e4, 4, 0.2]])
        bits_a, bits_b = openhpu.to_bits(a, "bf16"), openhpu.to_bits(b, "bf16")
        [sums] = session.run(a, b)
        self.assertEqual(sums.dtype, np.float32)
        [bits] = session.run(bits_a, bits_b, raw=True)
        self.assertEqual(bits.dtype, np.uint16)
        np.testing.assert_array_equal(openhpu.from_bits(bits, "bf16"), sums)
        exact = openhpu.from_bits(bits_a, "bf16") + openhpu.from_bits(bits_b, "bf16")
        np.testing.assert_array_equal(bits, openhpu.to_bits(exact, "bf16"))
        with self.assertRaisesRegex(ValueError, "input 'a' is bf16 .numpy float32, or uint16 bits., but an array of float16"):
            session.run(a.astype(np.float16), b)

    def test_bits_are_those_of_the_formats(self):
        # bf16 is the upper half of f32, rounded to nearest, ties to even.
        values = np.float32([1.0, 1.00390625, 1.01171875, -0.0, np.inf, 3.4e38])
        wide = values.view(np.uint32).astype(np.uint64)
        rounded = ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)
        np.testing.assert_array_equal(openhpu.to_bits(values, "bf16"), rounded)
        # fp8 against the formats' definitions, over all codes that are numbers.
        for name, exponent, mantissa, special in (("f8e4m3", 4, 3, 1), ("f8e5m2", 5, 2, 4), ("f8e4m3ieee", 4, 3, 8)):
            codes = np.arange(128 - special, dtype=np.uint8)
            e, m = codes >> mantissa, (codes & (1 << mantissa) - 1).astype(float)
            bias = (1 << exponent - 1) - 1
            number = np.where(e == 0, m * 2.0 ** (1 - bias - mantissa),
                              (1 + m / (1 << mantissa)) * 2.0 ** (e.astype(float) - bias)).astype(np.float32)
            np.testing.assert_array_equal(openhpu.from_bits(codes, name), number)
            np.testing.assert_array_equal(openhpu.to_bits(number, name), codes)
            self.assertEqual(openhpu.from_bits(openhpu.to_bits(np.float32(1e9), name), name), number[-1])
        with self.assertRaises(ValueError):
            openhpu.to_bits(values, "f32")

    def test_scalars_and_empty_tensors(self):
        scalar = openhpu.Session(openhpu.compile(add_model(shape=())))
        [total] = scalar.run(1.5, np.float32(2))
        self.assertEqual((total.shape, float(total)), ((), 3.5))


class Stubs(unittest.TestCase):
    """openhpu/__init__.pyi and the package name the same things, with the same parameters."""

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(BUILD, "python", "openhpu", "__init__.pyi"), encoding="utf-8") as file:
            cls.tree = ast.parse(file.read())

    @staticmethod
    def parameters(function):
        """[(name, kind, has a default)] of a stub's function."""
        arguments = function.args
        positional = arguments.posonlyargs + arguments.args
        without = len(positional) - len(arguments.defaults)
        result = [(one.arg, "positional", i >= without) for i, one in enumerate(positional)]
        result += [(arguments.vararg.arg, "*", False)] if arguments.vararg else []
        result += [(one.arg, "keyword", default is not None) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
        return result + ([(arguments.kwarg.arg, "**", False)] if arguments.kwarg else [])

    @staticmethod
    def real(function):
        kinds = {inspect.Parameter.POSITIONAL_ONLY: "positional", inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
                 inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.KEYWORD_ONLY: "keyword", inspect.Parameter.VAR_KEYWORD: "**"}
        return [(one.name, kinds[one.kind], one.default is not inspect.Parameter.empty)
                for one in inspect.signature(function).parameters.values()]

    def check(self, where, function, stub):
        self.assertEqual(self.parameters(stub), self.real(function), where)

    @staticmethod
    def members(body):
        """{name: its last definition}, of overloads the general one."""
        found = {}
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = node
            elif isinstance(node, ast.AnnAssign):
                found[node.target.id] = node
        return found

    def test_names_are_the_same(self):
        names = {name for name in self.members(self.tree.body) if not name.startswith("_")}
        self.assertEqual(names, set(openhpu.__all__))
        public = {name for name in vars(openhpu) if not name.startswith("_") and not inspect.ismodule(vars(openhpu)[name])}
        self.assertEqual(public, set(openhpu.__all__))

    def test_members_and_parameters_are_the_same(self):
        for name, node in self.members(self.tree.body).items():
            value = openhpu._tensors.Tensor if name == "_Tensor" else getattr(openhpu, name)
            if isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id == "_Tensor" for base in node.bases):
                self.assertEqual(value.__bases__, (openhpu._tensors.Tensor,), name)
            if isinstance(node, ast.FunctionDef):
                self.check(name, value, node)
            if not isinstance(node, ast.ClassDef):
                continue
            stubs = self.members(node.body)
            special = {"__init__", "__enter__", "__exit__", "__await__", "__array__", "__dlpack__", "__dlpack_device__"}
            own = {key for key in vars(value) if not key.startswith("_") or key in special}
            if issubclass(value, tuple):
                own -= {"count", "index"} | {key for key in special}
                stubs = {key: stub for key, stub in stubs.items() if key not in special}
            if issubclass(value, openhpu.Error):
                own |= {"message", "work", "unsupported"} if value is openhpu.Error else set()
                own -= set() if value is openhpu.Error else {"code"}
            self.assertEqual(set(stubs), own, name)
            for key, stub in stubs.items():
                member = vars(value).get(key)
                if isinstance(stub, ast.FunctionDef) and inspect.isfunction(member):
                    self.check(f"{name}.{key}", member, stub)
                elif isinstance(stub, ast.FunctionDef):
                    self.assertIsInstance(member, property, f"{name}.{key}")

    def test_everything_is_documented(self):
        self.assertTrue(os.path.exists(os.path.join(BUILD, "python", "openhpu", "py.typed")))
        for name in openhpu.__all__:
            value = getattr(openhpu, name)
            if not (inspect.isclass(value) and issubclass(value, openhpu.Error)):
                self.assertTrue(inspect.getdoc(value), name)


if __name__ == "__main__":
    unittest.main()
