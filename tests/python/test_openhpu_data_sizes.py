# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on data: models of NonZero and Compress, beside numpy. Static sizes and late ones; all elements found,
none, one."""

import unittest

import numpy as np
from onnx import helper, numpy_helper, TensorProto

from numpy_nodes import evaluate
from openhpu_cases import openhpu

FLOAT = TensorProto.FLOAT
RANDOM = np.random.default_rng(11)


class Net:
    """Nodes one after another; a result is named by its number."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def const(self, value, dtype=np.int64):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"node{len(self.nodes)}", **attributes))
        return names[0] if outputs == 1 else names

    def positive(self, x):
        """Indices of the rows of x [rows, columns] whose first element is above 0."""
        first = self.op("Gather", x, self.const(0), axis=1)
        found = self.op("NonZero", self.op("Greater", first, self.const(0, np.float32)))
        return self.op("Squeeze", found, self.const([0]))

    def selected(self, x):
        return self.op("Gather", x, self.positive(x), axis=0)

    def masked(self, x):
        """x[x > 0] as PyTorch exports it."""
        found = self.op("NonZero", self.op("Greater", x, self.const(0, np.float32)))
        return self.op("GatherND", x, self.op("Transpose", found, perm=[1, 0]))

    def count(self, x, dim=0):
        return self.op("Gather", self.op("Shape", x), self.const([dim]))


def shape_of(net, x, *more):
    return net.op("Concat", net.count(x), *[net.const([size]) for size in more], axis=0)


def nets():
    """By name: a function from a Net and the name of x [rows, 6] to the outputs' names."""
    found = {}

    def add(function):
        found[function.__name__] = function
        return function

    for kind in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceSumSquare"):
        found[kind] = lambda net, x, kind=kind: [net.op(kind, net.selected(x), axes=[0], keepdims=0),
                                                 net.op(kind, net.selected(x), axes=[0, 1])]
    for kind in ("Softmax", "LogSoftmax"):
        found[kind] = lambda net, x, kind=kind: [net.op(kind, net.selected(x), axis=0), net.op(kind, net.selected(x), axis=1)]

    @add
    def places(net, x):
        return [net.op("NonZero", net.op("Greater", x, net.const(0, np.float32)))]

    @add
    def picked(net, x):
        return [net.op("Mul", net.masked(x), net.const(2, np.float32))]

    @add
    def rows(net, x):
        return [net.op("Exp", net.selected(x)), net.positive(x)]

    @add
    def top(net, x):
        scores = net.masked(x)
        k = net.op("Min", net.count(scores), net.const([5]))
        all_of_them = net.count(scores)
        return (net.op("TopK", scores, k, outputs=2) + net.op("TopK", scores, k, outputs=2, largest=0)
                + net.op("TopK", scores, all_of_them, outputs=2))

    @add
    def top_rows(net, x):
        boxes = net.selected(x)
        k = net.op("Min", net.count(boxes), net.const([3]))
        _, best = net.op("TopK", net.op("Gather", boxes, net.const(1), axis=1), k, outputs=2)
        return [net.op("Gather", boxes, best, axis=0)]

    @add
    def joined(net, x):
        a, b = net.selected(x), net.op("Neg", net.selected(net.op("Neg", x)))
        return [net.op("Concat", a, x, b, axis=0), net.op("Concat", x, a, axis=0), net.op("Concat", a, a, axis=1),
                net.op("ReduceSum", net.op("Concat", a, b, axis=0), net.const([0]), keepdims=0)]

    @add
    def flat(net, x):
        found = net.op("NonZero", net.op("Greater", x, net.const(0, np.float32)))
        return [net.op("Reshape", found, net.const([-1])), net.op("Reshape", net.selected(x), net.const([-1])),
                net.op("Reshape", net.selected(x), net.const([-1, 2])),
                net.op("Reshape", net.selected(x), net.const([-1, 3, 2])),
                net.op("Reshape", net.op("Transpose", net.selected(x), perm=[1, 0]), net.const([-1])),
                net.op("Unsqueeze", net.selected(x), net.const([0]))]

    @add
    def cut(net, x):
        some = net.selected(x)
        first = net.op("Slice", some, net.const([0]), net.const([3]), net.const([0]))
        behind = net.op("Slice", some, net.const([2]), net.const([1 << 40]), net.const([0]))
        seldom = net.op("Slice", some, net.const([0]), net.const([1 << 40]), net.const([0]), net.const([2]))
        backward = net.op("Slice", some, net.const([-1]), net.const([-(1 << 40)]), net.const([0]), net.const([-1]))
        without = net.op("Slice", some, net.const([0]), net.const([-1]), net.const([0]))
        end = net.op("Slice", some, net.const([-2]), net.const([1 << 40]), net.const([0]))
        return [first, behind, seldom, backward, without, end, net.op("Slice", some, net.const([1]), net.const([4]), net.const([1]))]

    @add
    def cut_inside(net, x):
        def part(start, end, step=1):
            return net.op("Slice", net.selected(x), net.const([start]), net.const([end]), net.const([0]), net.const([step]))
        far = 1 << 40
        inside = part(2, -2)
        return [part(1, far, 2), inside, part(-5, -1), part(-7, far, 2), part(5, 1, -1), part(-1, -far, -2), part(3, -4, 3),
                net.op("ReduceSum", inside, net.const([0])), net.op("Concat", part(1, far, 2), inside, axis=0)]

    @add
    def stored(net, x):
        """x.masked_scatter(x > 0, 2 * x) as PyTorch exports it."""
        found = net.op("Transpose", net.op("NonZero", net.op("Greater", x, net.const(0, np.float32))), perm=[1, 0])
        source = net.op("Reshape", net.op("Mul", x, net.const(2, np.float32)), net.const([-1]))
        return [net.op("ScatterND", x, found, net.op("Slice", source, net.const([0]), net.count(found), net.const([0])))]

    @add
    def running(net, x):
        some = net.masked(x)
        return [net.op("CumSum", some, net.const(0)), net.op("CumSum", some, net.const(0), reverse=1),
                net.op("CumSum", some, net.const(0), exclusive=1)]

    @add
    def padded(net, x):
        return [net.op("Pad", net.selected(x), net.const([1, 0, 2, 1]), net.const(7, np.float32)),
                net.op("Pad", net.masked(x), net.const([0, 3]))]

    @add
    def products(net, x):
        some = net.selected(x)
        turned = net.op("Transpose", some, perm=[1, 0])
        return [net.op("MatMul", turned, some), net.op("MatMul", some, turned)]

    @add
    def numbers(net, x):
        some = net.masked(x)
        size = net.count(some)
        one = net.op("Squeeze", size, net.const([0]))
        share = net.op("Div", net.op("Cast", size, to=FLOAT), net.const(6, np.float32))
        return [net.op("Range", net.const(0), one, net.const(1)), net.op("Shape", some), net.op("Size", some), share,
                net.op("Range", one, net.op("Add", one, net.const(4)), net.const(2)),
                net.op("Div", net.op("ReduceSum", some, keepdims=0), net.op("Cast", net.op("Max", size, net.const([1])), to=FLOAT))]

    @add
    def scattered(net, x):
        some, at = net.selected(x), net.positive(x)
        marks = net.op("ConstantOfShape", net.count(x), value=helper.make_tensor("", FLOAT, [1], [0]))
        ones = net.op("Expand", net.const([3], np.float32), net.count(some))
        at_tuples = net.op("Unsqueeze", at, net.const([1]))
        return [net.op("ScatterElements", marks, at, ones, axis=0), net.op("ScatterND", x, at_tuples, net.op("Neg", some)),
                net.op("ScatterND", marks, at_tuples, ones, reduction="add")]

    @add
    def set_where_positive(net, x):
        some = net.selected(x)  # Of those rows, and within them of those elements.
        at = net.op("Transpose", net.op("NonZero", net.op("Greater", some, net.const(0, np.float32))), perm=[1, 0])
        return [net.op("ScatterND", some, at, net.op("Expand", net.const([-7], np.float32), net.count(at)))]

    @add
    def again(net, x):
        some = net.selected(x)  # Of those rows, the elements above 1 and where they are.
        found = net.op("NonZero", net.op("Greater", some, net.const(1, np.float32)))
        return [found, net.op("GatherND", some, net.op("Transpose", found, perm=[1, 0]))]

    @add
    def spread(net, x):
        some = net.selected(x)
        wide = net.op("Expand", net.const([[1, 2, 3]], np.float32), shape_of(net, some, 3))
        return [wide, net.op("Tile", some, net.const([1, 2])), net.op("Where", net.op("Greater", some, net.const(1, np.float32)),
                                                                     some, net.const(-1, np.float32))]

    @add
    def compressed(net, x):
        first = net.op("Greater", net.op("Gather", x, net.const(0), axis=1), net.const(0, np.float32))
        columns = net.const([True, False, True, True], bool)
        return [net.op("Compress", x, first, axis=0), net.op("Compress", x, columns, axis=1), net.op("Compress", x, first)]

    @add
    def best(net, x):
        some = net.op("Concat", net.selected(x), net.const([[-9] * 6], np.float32), axis=0)  # There is at least one.
        return [net.op("ArgMax", some, axis=0, keepdims=0), net.op("ArgMin", some, axis=0), net.op("ReduceMax", some, axes=[0])]

    @add
    def last(net, x):
        some = net.op("Concat", net.selected(x), x, axis=0)
        return [net.op("Gather", some, net.const([-1, 0]), axis=0), net.op("Gather", some, net.const(-1), axis=0)]

    return found


def inputs_of(rows):
    some = RANDOM.standard_normal((rows, 6)).astype(np.float32)
    yield some
    yield np.abs(some) + np.float32(0.5)
    yield -np.abs(some)
    one = -np.abs(some)
    one[rows // 2] = 2
    yield one
    ties = RANDOM.integers(-2, 3, (rows, 6)).astype(np.float32)
    yield ties


def model_for(build, rows):
    net = Net()
    outputs = [helper.make_empty_tensor_value_info(name) for name in build(net, "x")]
    graph = helper.make_graph(net.nodes, "g", [helper.make_tensor_value_info("x", FLOAT, (rows, 6))], outputs, net.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class BesideTheReference(unittest.TestCase):
    """Every net, in one recipe for all numbers of rows and in one for a single number."""

    def check(self, model, recipe, values):
        with openhpu.Session(recipe) as session:
            for x in values:
                with self.subTest(rows=x.shape[0], above=int((x[:, 0] > 0).sum())), np.errstate(all="ignore"):
                    got = session.run({"x": x})
                    self.assertEqual(list(got), [output.name for output in model.graph.output])
                    for name, expected in evaluate(model, {"x": x}).items():
                        self.assertEqual(got[name].shape, np.shape(expected), name)
                        np.testing.assert_allclose(got[name], expected, rtol=2e-5, atol=1e-6, err_msg=name)

    def test_one_number_of_rows(self):
        for name, build in nets().items():
            for rows in (7, 150):
                with self.subTest(net=name):
                    model = model_for(build, rows)
                    self.check(model, openhpu.compile(model, cache=""), inputs_of(rows))

    def test_all_numbers_of_rows(self):
        for name, build in nets().items():
            with self.subTest(net=name):
                model = model_for(build, "rows")
                recipe = openhpu.compile(model, cache="", dims={"rows": (1, 200)})
                self.check(model, recipe, [x for rows in (1, 40, 200) for x in inputs_of(rows)])


def alone(kind, shape, opset=13):
    """NonZero of an input, and nothing else."""
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["places"], name="find")], "g",
                              [helper.make_tensor_value_info("x", kind, shape)],
                              [helper.make_empty_tensor_value_info("places")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class NonZeroAlone(unittest.TestCase):
    """Types, ranks and values that are unusual."""

    def check(self, model, *values, **options):
        with openhpu.Session(openhpu.compile(model, cache="", **options)) as session:
            for x in values:
                with self.subTest(shape=x.shape, dtype=x.dtype):
                    expected = np.stack(np.nonzero(x)) if x.ndim else np.zeros((0, int(x != 0)), np.int64)
                    got = session.run({"x": x})["places"]
                    self.assertEqual((got.dtype, got.shape), (np.int64, expected.shape))
                    np.testing.assert_array_equal(got, expected)

    def test_all_types(self):
        for dtype in ("float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
                      "bool"):
            kind = helper.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(dtype)]
            some = RANDOM.integers(0, 2, (3, 50)).astype(dtype)
            with self.subTest(dtype=dtype):
                self.check(alone(kind, [3, 50]), some, np.zeros_like(some), np.ones_like(some))

    def test_numbers_that_are_and_are_not_zero(self):
        odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1e-38, 0.0, 3.0], np.float32)
        self.check(alone(FLOAT, [10]), odd, odd[::-1].copy())
        self.check(alone(TensorProto.INT64, [4]), np.array([1 << 40, 0, -(1 << 63), 1 << 32], np.int64))
        self.check(alone(TensorProto.INT8, [4]), np.array([-128, 0, 127, 1], np.int8))

    def test_all_ranks(self):
        for shape in ([1], [2], [1, 1], [4, 5], [2, 3, 4], [3, 1, 4, 5], [2, 2, 2, 2, 3], [300], [70, 90], [0], [0, 3], [5, 0, 2]):
            some = RANDOM.integers(0, 2, shape).astype(np.float32)
            with self.subTest(shape=shape):
                self.check(alone(FLOAT, shape), some, np.zeros_like(some), np.ones_like(some))

    def test_a_single_number(self):
        self.check(alone(FLOAT, []), np.array(0, np.float32), np.array(5, np.float32), np.array(np.nan, np.float32))

    def test_every_opset(self):
        for opset in (9, 13, 17):
            self.check(alone(FLOAT, [3, 4], opset), RANDOM.integers(0, 2, (3, 4)).astype(np.float32))

    def test_free_sizes(self):
        bounds = {"a": (0, 9), "b": (1, 130)}
        values = [RANDOM.integers(0, 2, shape).astype(np.float32)
                  for shape in ((0, 1), (1, 1), (9, 130), (0, 130), (9, 1), (4, 65), (5, 13))]
        self.check(alone(FLOAT, ["a", "b"]), *values, *map(np.ones_like, values), *map(np.zeros_like, values), dims=bounds)
        self.check(alone(FLOAT, ["a", 2, "b"]), *(np.stack([x, 1 - x], 1) for x in values), dims=bounds)

    def test_free_sizes_of_many_elements(self):
        # Beyond 64 * 256 elements blocks of blocks are summed.
        values = [RANDOM.integers(0, 2, shape).astype(np.float32)
                  for shape in ((0, 1), (1, 1), (1, 64), (1, 65), (1, 4096), (1, 4097), (2, 8192), (3, 8000))]
        for most in (8192, 64 * 64 * 4):
            with self.subTest(most=most):
                self.check(alone(FLOAT, ["a", "b"]), *values, *map(np.ones_like, values), dims={"a": (0, 3), "b": (1, most)})

    def test_what_recipes_say(self):
        recipe = openhpu.compile(alone(FLOAT, ["a", 40]), cache="", dims={"a": (1, 5)})
        self.assertEqual(recipe.data_sizes, {"places": [1]})
        self.assertEqual([info.name for info in recipe.outputs], ["places"])
        again = openhpu.Recipe(type(recipe._core).from_bytes(recipe.to_bytes()))
        self.assertEqual(again.data_sizes, {"places": [1]})

    def test_places_are_exact_in_narrow_types(self):
        for precision in ("bf16", "f16", "fp8"):
            with self.subTest(precision=precision):
                self.check(alone(FLOAT, [70, 90]), np.ones((70, 90), np.float32),
                           RANDOM.integers(0, 2, (70, 90)).astype(np.float32), precision=precision)

    def test_the_interpreter_and_narrow_types(self):
        x = RANDOM.standard_normal((40, 6)).astype(np.float32)
        for name in ("rows", "top_rows", "joined"):
            model = model_for(nets()[name], 40)
            self.assertTrue(openhpu.verify(model, {"x": x})["passed"])
            expected = evaluate(model, {"x": x})
            for precision in ("bf16", "f16"):
                with openhpu.Session(openhpu.compile(model, cache="", precision=precision)) as session:
                    for output, value in session.run({"x": x}).items():
                        self.assertEqual(value.shape, expected[output].shape)


class TwoFreeSizes(unittest.TestCase):
    """Selections out of [batch, rows, 6], whose number has a bound that is a product of free sizes."""

    def check(self, build, sizes, dims):
        net = Net()
        outputs = [helper.make_empty_tensor_value_info(name) for name in build(net)]
        graph = helper.make_graph(net.nodes, "g", [helper.make_tensor_value_info("x", FLOAT, ["batch", "rows", 6])], outputs,
                                  net.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        with openhpu.Session(openhpu.compile(model, cache="", dims=dims)) as session:
            for batch, rows in sizes:
                some = RANDOM.standard_normal((batch, rows, 6)).astype(np.float32)
                for x in (some, np.abs(some) + 1, -np.abs(some)):
                    got = session.run({"x": x})
                    for name, expected in evaluate(model, {"x": x}).items():
                        self.assertEqual(got[name].shape, np.shape(expected), (name, batch, rows))
                        np.testing.assert_allclose(got[name], expected, rtol=2e-5, atol=1e-5, err_msg=f"{name} {batch} {rows}")

    @staticmethod
    def anchors(net):
        first = net.op("Gather", "x", net.const(0), axis=2)
        found = net.op("Transpose", net.op("NonZero", net.op("Greater", first, net.const(0, np.float32))), perm=[1, 0])
        rows = net.op("GatherND", "x", found)
        images = net.op("Gather", found, net.const(0), axis=1)
        weights = net.op("Gather", net.op("ReduceMax", "x", axes=[1], keepdims=0), images, axis=0)
        k = net.op("Min", net.count(rows), net.const([7]))
        _, best = net.op("TopK", net.op("Gather", rows, net.const(1), axis=1), k, outputs=2)
        return [found, net.op("Mul", rows, weights), net.op("Gather", rows, best, axis=0),
                net.op("ReduceSum", rows, net.const([0])), net.op("Concat", rows, weights, axis=0),
                net.op("Reshape", net.op("Transpose", rows, perm=[1, 0]), net.const([-1]))]

    def test_anchors(self):
        self.check(self.anchors, [(1, 1), (1, 90), (5, 1), (5, 90), (3, 31)], {"batch": (1, 5), "rows": (1, 90)})

    def test_parts_of_none(self):
        def parts(net):
            some, far = net.masked("x"), net.const([1 << 40])
            return [net.op("Slice", some, net.const([start]), far, net.const([0]), net.const([step]))
                    for start, step in ((-1, 1), (-2, 1), (1, 2), (3, 7))]
        self.check(parts, [(0, 0), (1, 1), (2, 0), (2, 9)], {"batch": (0, 2), "rows": (0, 9)})

    def test_none_at_all(self):
        def places(net):
            return [net.op("NonZero", "x"), net.op("ReduceSum", net.masked("x"), net.const([0]))]
        self.check(places, [(0, 1), (0, 9), (1, 0), (0, 0), (2, 9)], {"batch": (0, 2), "rows": (0, 9)})


class TwoSelections(unittest.TestCase):
    """Of sizes within bounds so narrow that blocks of elements are one."""

    def test_of_few_elements(self):
        nodes = [helper.make_node("NonZero", [name], [f"places_{name}"]) for name in "ab"]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.BOOL, [name]) for name in "ab"],
                                  [helper.make_empty_tensor_value_info(f"places_{name}") for name in "ab"])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        for most in ((9, 70), (1, 1), (70, 70), (9, 9)):
            with openhpu.Session(openhpu.compile(model, cache="", dims=dict(zip("ab", ((0, n) for n in most))))) as session:
                for sizes in (most, (0, most[1]), (most[0], 0)):
                    masks = dict(zip("ab", (RANDOM.random(n) < 0.5 for n in sizes)))
                    got = session.run(masks)
                    for name, mask in masks.items():
                        np.testing.assert_array_equal(got[f"places_{name}"], np.stack(np.nonzero(mask)))

    def test_is_no_state(self):
        nodes = [helper.make_node("Compress", ["new", "keep"], ["some"], axis=0),
                 helper.make_node("Concat", ["past", "some"], ["present"], axis=0)]
        infos = [helper.make_tensor_value_info(name, FLOAT, [name, 4]) for name in ("past", "new")]
        infos.append(helper.make_tensor_value_info("keep", TensorProto.BOOL, ["new"]))
        graph = helper.make_graph(nodes, "g", infos, [helper.make_empty_tensor_value_info("present")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        self.assertRaisesRegex(openhpu.UnimplementedError, "the size of dimension 0 of the output 'present' depends on data",
                               openhpu.compile, model, cache="", states={"present": "past"},
                               dims={"past": (0, 8), "new": (1, 4)})


class ScatterOfAsMany(unittest.TestCase):
    """Indices of as many rows as the data gives updates, or the other way about: one of the two sizes is a number."""

    def check(self, chosen, keep_shape, opset=18):
        """`chosen`: which of data, indices and updates are rows chosen by the data out of `keep_shape`."""
        names = ("data", "indices", "updates")
        nodes, inputs = [], []
        for name in names:
            kind = TensorProto.INT64 if name == "indices" else FLOAT
            rows = keep_shape if name in chosen else 5 if name == "data" else 2
            inputs.append(helper.make_tensor_value_info(name, kind, [rows, 3]))
            if name in chosen:
                inputs.append(helper.make_tensor_value_info("keep_" + name, TensorProto.BOOL, [keep_shape]))
                nodes.append(helper.make_node("Compress", [name, "keep_" + name], ["some_" + name], axis=0))
        some = [f"some_{name}" if name in chosen else name for name in names]
        nodes.append(helper.make_node("ScatterElements", some, ["y"], axis=1, reduction="add"))
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        with openhpu.Session(openhpu.compile(model, cache="")) as session:
            for _ in range(4):
                given = {}
                for name in names:
                    rows = keep_shape if name in chosen else 5 if name == "data" else 2
                    given[name] = (RANDOM.integers(-3, 3, (rows, 3)) if name == "indices" else
                                   RANDOM.integers(-9, 9, (rows, 3)).astype(np.float32))
                    if name in chosen:
                        given["keep_" + name] = np.zeros(rows, bool)
                        count = 4 if name == "data" else 2
                        given["keep_" + name][RANDOM.choice(rows, count, replace=False)] = True
                data, indices, updates = (given[name][given["keep_" + name]] if name in chosen else given[name]
                                          for name in names)
                expected = data.copy()
                for i in range(2):
                    for j in range(3):
                        expected[i, indices[i, j]] += updates[i, j]
                np.testing.assert_array_equal(session.run(given)["y"], expected)

    def test_one_of_them(self):
        for chosen in (["updates"], ["indices"], ["updates", "data"], ["indices", "data"], ["updates", "indices"]):
            for most in (4, 6):
                with self.subTest(chosen=chosen, most=most):
                    self.check(chosen, most)


class TopKOfAValue(unittest.TestCase):
    """k is an input: none, all, ties, NaN."""

    def check(self, dtype, shape, axis, largest, counts):
        kind = helper.mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype(dtype)]
        node = helper.make_node("TopK", ["x", "k"], ["values", "indices"], axis=axis, largest=largest)
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, shape),
                                                helper.make_tensor_value_info("k", TensorProto.INT64, [1])],
                                  [helper.make_empty_tensor_value_info(name) for name in ("values", "indices")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        with openhpu.Session(openhpu.compile(model, cache="", dims={"k": (0, shape[axis])})) as session:
            for count in counts:
                x = RANDOM.integers(0, 4, shape).astype(dtype)
                if x.dtype.kind == "f":
                    x[RANDOM.random(shape) < 0.1] = np.nan
                    x[RANDOM.random(shape) < 0.1] = -np.inf
                rank = np.nan_to_num(x.astype(np.float64), nan=1e9, neginf=-1e9)  # NaN is above all numbers.
                order = np.argsort(-rank if largest else rank, axis=axis, kind="stable")
                expected = np.take(order, np.arange(count), axis=axis)
                got = session.run({"x": x, "k": np.array([count], np.int64)})
                np.testing.assert_array_equal(got["indices"], expected)
                np.testing.assert_array_equal(got["values"], np.take_along_axis(x, expected, axis))

    def test_counts_types_and_axes(self):
        for dtype in ("float32", "float16", "int8", "int32", "int64", "uint8"):
            for largest in (0, 1):
                with self.subTest(dtype=dtype, largest=largest):
                    self.check(dtype, [3, 40], 1, largest, [0, 1, 2, 39, 40])
                    self.check(dtype, [20, 3], 0, largest, [20, 0, 5])


if __name__ == "__main__":
    unittest.main()
