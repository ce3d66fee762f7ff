#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops on f64 on a device, against NumPy's and Python's functions of f64: to 1e-13, which no path through f32 reaches. Exit codes: 0 ok, 1 a difference or a failure."""
import math
import sys

import numpy as np
from case_runner import arguments, run_cases
from openhpu_cases import openhpu
from onnx import TensorProto, helper

TYPES = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint64": TensorProto.UINT64, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}
RNG = np.random.default_rng(5)


def noise(*shape):
    return RNG.standard_normal(shape)


def each(function):
    return np.vectorize(function, otypes=[np.float64])


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def convolved(x, w, groups=1, stride=1, pad=0):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    height, width = (x.shape[2] - w.shape[2]) // stride + 1, (x.shape[3] - w.shape[3]) // stride + 1
    y = np.zeros((x.shape[0], w.shape[0], height, width))
    into, out = x.shape[1] // groups, w.shape[0] // groups
    for g in range(groups):
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                part = x[:, g * into:(g + 1) * into, i:i + stride * height:stride, j:j + stride * width:stride]
                y[:, g * out:(g + 1) * out] += np.einsum("nchw,oc->nohw", part, w[g * out:(g + 1) * out, :, i, j])
    return y


def transposed(x, w, groups, stride, pads, dilation, more, only_width=False):
    """Each input adds its window to the result, of which the pads are cut off."""
    tall = 1 if only_width else stride
    height, width = ((size - 1) * step + dilation * (kernel - 1) + 1 + more for size, kernel, step in zip(x.shape[2:], w.shape[2:], (tall, stride)))
    y = np.zeros((x.shape[0], w.shape[1] * groups, height, width))
    into, out = x.shape[1] // groups, w.shape[1]
    for g in range(groups):
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                part = np.einsum("nchw,co->nohw", x[:, g * into:(g + 1) * into], w[g * into:(g + 1) * into, :, i, j])
                y[:, g * out:(g + 1) * out, i * dilation:i * dilation + tall * x.shape[2]:tall, j * dilation:j * dilation + stride * x.shape[3]:stride] += part
    return y[:, :, pads[0]:height - pads[2], pads[1]:width - pads[3]]


def cases():
    """(name, op, inputs, attributes, expected, constants, tolerance)"""
    x, y = noise(7, 33), noise(7, 33)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-300, -1e-300, 1e300, 2.0 ** -1074, 709.7, -745.0, 0.5])
    wide = np.concatenate([noise(200) * 10.0 ** RNG.integers(-12, 3, 200), edges])
    exact, close = 0, 1e-14
    for name, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide), ("Max", np.maximum), ("Min", np.minimum)):
        yield name, name, [x, y], {}, function(x, y), (), exact
    for name, function in (("Less", np.less), ("Greater", np.greater), ("Equal", np.equal)):
        yield name, name, [x, np.where(RNG.random(x.shape) < 0.3, x, x * (1 + 1e-12))], {}, None, (), exact
    one_step = np.nextafter(x, 9)
    yield "Less, one step", "Less", [x, one_step], {}, x < one_step, (), exact
    unary = {
        "Exp": (np.exp, 4e-16), "Log": (np.log, 4e-16), "Sqrt": (np.sqrt, 0), "Tanh": (np.tanh, 1e-15), "Sigmoid": (lambda v: 1 / (1 + np.exp(-v)), 1e-15), "Erf": (each(math.erf), 4e-15),
        "Sin": (np.sin, 1e-15), "Cos": (np.cos, 1e-15), "Tan": (np.tan, 2e-15), "Atan": (np.arctan, 1e-15), "Floor": (np.floor, 0), "Ceil": (np.ceil, 0), "Round": (np.round, 0),
        "Abs": (np.abs, 0), "Neg": (np.negative, 0), "Relu": (lambda v: np.maximum(v, 0), 0), "Sign": (np.sign, 0), "Reciprocal": (lambda v: 1 / v, 0),
        "Softplus": (lambda v: np.logaddexp(0, v), 2e-15), "Elu": (lambda v: np.where(v < 0, np.expm1(v), v), 1e-15), "IsNaN": (np.isnan, 0), "IsInf": (np.isinf, 0),
        "Sinh": (np.sinh, 4e-15), "Cosh": (np.cosh, 4e-15), "Asin": (np.arcsin, 4e-15), "Acos": (np.arccos, 1e-14), "Asinh": (np.arcsinh, 1e-14), "Atanh": (np.arctanh, 1e-14),
    }
    with np.errstate(all="ignore"):
        for name, (function, tolerance) in unary.items():
            values = wide
            if name in ("Sin", "Cos", "Tan"):
                # Every exponent; the nearest that an f64 comes to a multiple of pi / 2; multiples of pi / 2 and their neighbours.
                powers = np.ldexp(1 + RNG.random(2098), np.arange(-1074, 1024)) * RNG.choice([-1, 1], 2098)
                quarters = np.concatenate([np.arange(-40, 41), 2.0 ** np.arange(28, 60) + 1]) * (math.pi / 2)
                values = np.concatenate([wide, powers, quarters, np.nextafter(quarters, np.inf), [6381956970095103.0 * 2.0 ** 797, 1.7976931348623157e308, 2.0 ** 30, np.nextafter(2.0 ** 30, 0)]])
            if name in ("Sinh", "Cosh", "Asinh", "Softplus", "Asin", "Acos", "Atanh"):
                values = np.clip(noise(200) * 3, -0.999, 0.999) if name in ("Asin", "Acos", "Atanh") else noise(200) * 30
            yield name, name, [values], {}, function(values), (), tolerance
        far = np.concatenate([10.0 ** RNG.uniform(0, 20, 300), [1e154, 1e300, np.inf, 9.9e3, 1.01e4, 1e8, 1e9]])
        yield "Asinh, far out", "Asinh", [far * RNG.choice([-1, 1], far.shape)], {}, None, (), 4e-15
        yield "Acosh, far out", "Acosh", [far], {}, np.arccosh(far), (), 4e-15
        ends = np.array([[np.inf, 1, 2], [-np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [np.inf, -np.inf, 0], [np.inf, np.inf, 1], [np.nan, 1, np.inf], [1e308, -1e308, 3]])
        for t in (np.float64, np.float32):
            short = np.clip(ends, -3e38, 3e38) if t == np.float32 else ends
            short = np.where(np.isinf(ends), ends, short).astype(t)
            yield f"ReduceLogSumExp, infinities, {t.__name__}", "ReduceLogSumExp", [short], {"axes": [1]}, np.logaddexp.reduce(short.astype(np.float64), 1, keepdims=True).astype(t), (), 1e-6
        values = noise(300) * 20
        yield "Gelu", "Gelu", [values], {}, values * np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in values]), (), 1e-13
        base, exponent = np.abs(wide), RNG.choice([0.5, 2.0, -3.0, 17.25, -0.1, 0.0, 1.0, np.inf, -np.inf], wide.shape)
        yield "Pow", "Pow", [base, exponent], {}, np.power(base, exponent), (), 4e-15
        yield "Pow, whole", "Pow", [wide, np.round(exponent * 3)], {}, np.power(wide, np.round(exponent * 3)), (), 4e-15
        a, b = noise(300) * 10.0 ** RNG.integers(-200, 200, 300), noise(300) * 10.0 ** RNG.integers(-200, 200, 300)
        yield "Mod", "Mod", [a, b], {"fmod": 1}, np.fmod(a, b), (), exact
    for axis in (0, 1):
        for name, function in (("ReduceSum", np.sum), ("ReduceMean", np.mean), ("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceProd", np.prod)):
            inputs, attributes, constants = ([x, np.array([axis])], {}, (1,)) if name == "ReduceSum" else ([x], {"axes": [axis]}, ())
            yield f"{name} {axis}", name, inputs, attributes, function(x, axis, keepdims=True), constants, close
        yield f"ReduceLogSumExp {axis}", "ReduceLogSumExp", [x * 100], {"axes": [axis]}, np.log(np.exp(x * 100 - (x * 100).max(axis, keepdims=True)).sum(axis, keepdims=True)) + (x * 100).max(axis, keepdims=True), (), close
        yield f"ReduceL2 {axis}", "ReduceL2", [x], {"axes": [axis]}, np.sqrt((x * x).sum(axis, keepdims=True)), (), close
        yield f"Softmax {axis}", "Softmax", [x * 10], {"axis": axis}, softmax(x * 10, axis), (), close
        yield f"LogSoftmax {axis}", "LogSoftmax", [x * 10], {"axis": axis}, np.log(softmax(x * 10, axis)), (), 1e-13
        yield f"ArgMax {axis}", "ArgMax", [x], {"axis": axis}, x.argmax(axis).reshape((1, 33) if axis == 0 else (7, 1)), (), exact
        near = 1 + RNG.permutation(7 * 33).reshape(7, 33) * 2.0 ** -50
        yield f"ArgMax {axis}, near", "ArgMax", [near], {"axis": axis}, near.argmax(axis).reshape((1, 33) if axis == 0 else (7, 1)), (), exact
        yield f"CumSum {axis}", "CumSum", [x, np.array(axis)], {}, x.cumsum(axis), (1,), close
    yield "TopK", "TopK", [near, np.array([5])], {}, np.sort(near, 1)[:, ::-1][:, :5], (1,), exact
    scale, bias = noise(33), noise(33)
    centred = x - x.mean(1, keepdims=True)
    normal = centred / np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5)
    variance, mean = np.abs(scale) + 0.1, 0.3 * bias
    of_rows = (x - mean) / np.sqrt(variance + float(np.float32(1e-5))) * scale + bias
    # epsilon is an f32, also where it is not said.
    yield "BatchNormalization", "BatchNormalization", [x, scale, bias, mean, variance], {}, of_rows, (), 1e-12
    yield "LayerNormalization", "LayerNormalization", [x, scale, bias], {}, normal * scale + bias, (), 1e-8  # epsilon is an f32.
    for m, k, n in ((5, 37, 11), (1, 3, 1), (33, 129, 65)):
        a, b = noise(m, k), noise(k, n)
        yield f"MatMul {m} {k} {n}", "MatMul", [a, b], {}, a @ b, (), 1e-13
        yield f"MatMul {m} {k} {n}, constant", "MatMul", [a, b], {}, a @ b, (1,), 1e-13
        yield f"Gemm {m} {k} {n}", "Gemm", [a.T.copy(), b, noise(n) * 0 + 2], {"transA": 1, "alpha": 0.5}, 0.5 * (a @ b) + 2, (), 1e-13
    a, b = noise(2, 3, 5, 7), noise(3, 7, 4)
    yield "MatMul, batches", "MatMul", [a, b], {}, a @ b, (), 1e-13
    yield "Einsum", "Einsum", [noise(5, 5)], {"equation": "ii->i"}, None, (), exact
    for groups, out in ((1, 4), (2, 4), (6, 6), (6, 12), (3, 3)):
        image, weights = noise(2, 6, 8, 7), noise(out, 6 // groups, 3, 3)
        yield f"Conv {groups} {out}", "Conv", [image, weights], {"group": groups}, convolved(image, weights, groups), (), 1e-13
        yield f"Conv {groups} {out}, padded", "Conv", [image, weights], {"group": groups, "pads": [1] * 4, "strides": [2, 2]}, convolved(image, weights, groups, 2, 1), (1,), 1e-13
    for groups, inputs, stride, pads, dilation, more in ((1, 4, 1, (0, 0, 0, 0), 1, 0), (2, 4, 2, (1, 0, 1, 2), 1, 1), (3, 3, 3, (0, 1, 0, 1), 2, 2), (1, 2, 2, (4, 4, 4, 4), 1, 0)):
        image, weights = noise(2, inputs, 5, 4), noise(inputs, 3, 3, 3)
        attributes = {"group": groups, "strides": [stride] * 2, "pads": list(pads), "dilations": [dilation] * 2, "output_padding": [more] * 2}
        yield f"ConvTranspose {groups} {inputs} {stride}", "ConvTranspose", [image, weights], attributes, transposed(image, weights, groups, stride, pads, dilation, more), (1,), 1e-13
    line, weights = noise(2, 3, 6), noise(3, 2, 4)
    yield "ConvTranspose, a line", "ConvTranspose", [line, weights, noise(2) * 0 + 1], {"strides": [2]}, transposed(line[:, :, None], weights[:, :, None], 1, 2, (0, 0, 0, 0), 1, 0, only_width=True)[:, :, 0] + 1, (), 1e-13
    volume, weights = noise(1, 2, 3, 4, 3), noise(2, 3, 2, 2, 2)
    by_depth = np.zeros((1, 3, 6, 8, 6))
    for d in range(3):
        for q in range(2):
            by_depth[:, :, 2 * d + q] += transposed(volume[:, :, d], weights[:, :, q], 1, 2, (0, 0, 0, 0), 1, 0)
    yield "ConvTranspose of volumes", "ConvTranspose", [volume, weights], {"strides": [2] * 3}, by_depth, (), 1e-13
    image = noise(1, 3, 6, 8)
    pools = image.reshape(1, 3, 3, 2, 4, 2)
    yield "MaxPool", "MaxPool", [image], {"kernel_shape": [2, 2], "strides": [2, 2]}, pools.max((3, 5)), (), exact
    yield "AveragePool", "AveragePool", [image], {"kernel_shape": [2, 2], "strides": [2, 2]}, pools.mean((3, 5)), (), close
    yield "GlobalAveragePool", "GlobalAveragePool", [image], {}, image.mean((2, 3), keepdims=True), (), close
    # Halfway between two f16 but for a bit that f32 does not have.
    ties = np.array([1 + 2.0 ** -11 + 2.0 ** -40, 1 + 2.0 ** -11 - 2.0 ** -40, 65519.999999, 65520.0, 1e6, 1e300, -1e300, 2.0 ** -25 * (1 + 1e-12), np.nan, np.inf])
    with np.errstate(all="ignore"):
        yield "Cast to f32", "Cast", [np.concatenate([wide[np.abs(wide) > 1e-30], ties])], {"to": TensorProto.FLOAT}, np.concatenate([wide[np.abs(wide) > 1e-30], ties]).astype(np.float32), (), exact
        yield "Cast to f16", "Cast", [ties], {"to": TensorProto.FLOAT16}, ties.astype(np.float16), (), exact
    yield "Cast of f32", "Cast", [x.astype(np.float32)], {"to": TensorProto.DOUBLE}, x.astype(np.float32).astype(np.float64), (), exact
    yield "Cast of f16", "Cast", [x.astype(np.float16)], {"to": TensorProto.DOUBLE}, x.astype(np.float16).astype(np.float64), (), exact
    large = np.array([0, 1, -1, (1 << 53) + 1, (1 << 62) + 3, -(1 << 63), (1 << 63) - 1], np.int64)
    yield "Cast of i64", "Cast", [large], {"to": TensorProto.DOUBLE}, large.astype(np.float64), (), exact
    whole = np.array([0.5, -0.5, 2.0 ** 53 + 2, 2.0 ** 62 + 2.0 ** 10, -2.0 ** 63, 123456789.75, -7.99, 2.0 ** 31])
    yield "Cast to i64", "Cast", [whole], {"to": TensorProto.INT64}, whole.astype(np.int64), (), exact
    yield "Cast to u64", "Cast", [np.abs(whole) * 1.5], {"to": TensorProto.UINT64}, (np.abs(whole) * 1.5).astype(np.uint64), (), exact
    yield "Clip", "Clip", [x, np.array(-0.3), np.array(1 / 3)], {}, np.clip(x, -0.3, 1 / 3), (1, 2), exact
    yield "Where", "Where", [x > y, x, y], {}, np.where(x > y, x, y), (), exact
    yield "Transpose", "Transpose", [x], {}, x.T, (), exact
    yield "Concat", "Concat", [x, y], {"axis": 1}, np.concatenate([x, y], 1), (), exact
    yield "Expand", "Expand", [x, np.array([2, 7, 33])], {}, np.broadcast_to(x, (2, 7, 33)), (1,), exact


COMPARISONS = {"Less": np.less, "Greater": np.greater, "Equal": np.equal, "Einsum": lambda x: np.diag(x), "Asinh": np.arcsinh}


def check(op, inputs, attributes, expected, constants, tolerance):
    """What is wrong; None: nothing."""
    if expected is None:
        expected = COMPARISONS[op](*inputs)
    names = [f"in{i}" for i in range(len(inputs))]
    given = {name: value for i, (name, value) in enumerate(zip(names, inputs)) if i not in constants}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y", "where"] if op == "TopK" else ["y"], **attributes)], "graph",
        [helper.make_tensor_value_info(name, TYPES[str(value.dtype)], value.shape) for name, value in given.items()],
        [helper.make_tensor_value_info("y", TYPES[str(expected.dtype)], None)],
        [helper.make_tensor(names[i], TYPES[str(inputs[i].dtype)], inputs[i].shape, inputs[i].tobytes(), raw=True) for i in constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20 if op == "Gelu" else 17)], ir_version=8)
    try:
        with openhpu.Session(openhpu.compile(model)) as session:
            found = session.run(given)["y"]
    except openhpu.Error as error:
        return f"{error}"
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype} {found.shape} instead of {expected.dtype} {expected.shape}"
    with np.errstate(all="ignore"):
        same = (found == expected) | ((found != found) & (expected != expected))
        if expected.dtype.kind == "f":
            scale = np.abs(expected) if op not in ("MatMul", "Gemm", "Conv", "ConvTranspose", "ReduceSum", "ReduceMean", "CumSum", "LogSoftmax", "LayerNormalization", "Gelu") else np.maximum(np.abs(expected), 1)
            same |= np.abs(found - expected) <= tolerance * scale + 2.0 ** -1073 * (tolerance > 0)
    if same.all():
        return None
    at = tuple(np.argwhere(~same)[0])
    operands = [value[at] for value in inputs if value.shape == expected.shape]
    worst = np.nanmax(np.where(same, 0, np.abs(found.astype(float) - expected) / np.abs(expected)))
    return f"{np.count_nonzero(~same)} of {found.size} differ: of {operands} at {tuple(map(int, at))} is {found[at]!r} instead of {expected[at]!r} (worst {worst:.2g})"


if __name__ == "__main__":
    sys.exit(run_cases(arguments(__doc__), cases(), check))
