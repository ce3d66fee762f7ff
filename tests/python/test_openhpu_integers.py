#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Ops on integers of all widths, with the numbers at the ends of their types, on a device against NumPy's integers: exactly. Exit codes: 0 ok, 1 a difference or a failure."""
import sys

import numpy as np
from case_runner import arguments, run_cases
from openhpu_cases import openhpu
from onnx import TensorProto, helper

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
ALL, WIDE = SIGNED + UNSIGNED, ("int32", "int64", "uint32", "uint64")
ONNX = {name: getattr(TensorProto, name.upper()) for name in ALL} | {"bool": TensorProto.BOOL, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
RNG = np.random.default_rng(11)


def numbers(dtype, *shape):
    """Small ones, random ones, and those at both ends and beyond 2^24 and 2^53."""
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, info.max // 2, info.max // 3]
    edges += [v for v in ((1 << 24) + 1, (1 << 31) - 1, (1 << 31) + 1, (1 << 53) + 1, -(1 << 53) - 1, -1, -2, -7) if info.min <= v <= info.max]
    any_of = RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.where(RNG.random(shape) < 0.4, RNG.choice(np.array(edges, dtype), shape), any_of).astype(dtype)


def small(dtype, low, high, *shape):
    return RNG.integers(max(low, np.iinfo(dtype).min), high, shape).astype(dtype)


def wrapped(function, *operands):
    """What the function gives of Python's integers, modulo the type."""
    dtype = operands[0].dtype
    mask = (1 << dtype.itemsize * 8) - 1
    objects = [operand.astype(object) for operand in operands]
    result = np.array(function(*objects), dtype=object)
    bits = np.array([int(v) & mask for v in result.flatten()], dtype=f"uint{dtype.itemsize * 8}")
    return bits.view(dtype).reshape(result.shape)


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def power(a, b):
    """As in C: of a negative exponent what is left of a fraction, of 0 nothing."""
    if b >= 0:
        return pow(a, b, 1 << 64) if a >= 0 else -pow(-a, b, 1 << 64) if b % 2 else pow(-a, b, 1 << 64)
    return 1 if a == 1 else (1 if b % 2 == 0 else -1) if a == -1 else 0


def each(function):
    return np.frompyfunc(function, 2, 1)


def nonzero(dtype, *shape):
    divisors = numbers(dtype, *shape)
    return np.where(divisors == 0, np.array(3, dtype), divisors)


def cases():
    """(name, op, inputs, attributes, expected, constants (indices of inputs), opset)"""
    for t in ALL:
        a, b = numbers(t, 7, 33), numbers(t, 7, 33)
        yield f"Add {t}", "Add", [a, b], {}, wrapped(np.add, a, b), (), 17
        yield f"Sub {t}", "Sub", [a, b], {}, wrapped(np.subtract, a, b), (), 17
        yield f"Mul {t}", "Mul", [a, b], {}, wrapped(np.multiply, a, b), (), 17
        divisor = nonzero(t, 7, 33)
        yield f"Div {t}", "Div", [a, divisor], {}, wrapped(each(truncated), a, divisor), (), 17
        yield f"Mod {t}", "Mod", [a, divisor], {}, wrapped(np.mod, a, divisor), (), 17
        yield f"Mod {t}, as C", "Mod", [a, divisor], {"fmod": 1}, wrapped(each(lambda x, y: x - truncated(x, y) * y), a, divisor), (), 17
        for name, function in (("Max", np.maximum), ("Min", np.minimum)):
            yield f"{name} {t}", name, [a, b], {}, function(a, b), (), 17
        for name, function in (("Less", np.less), ("LessOrEqual", np.less_equal), ("Greater", np.greater), ("GreaterOrEqual", np.greater_equal), ("Equal", np.equal)):
            yield f"{name} {t}", name, [a, np.where(RNG.random(a.shape) < 0.3, a, b)], {}, None, (), 17
        low, high = np.sort(numbers(t, 2))
        yield f"Clip {t}", "Clip", [a, low.reshape(()), high.reshape(())], {}, np.clip(a, low, high), (), 17
        yield f"Clip {t}, constant", "Clip", [a, low.reshape(()), high.reshape(())], {}, np.clip(a, low, high), (1, 2), 17
        if t in SIGNED:
            yield f"Neg {t}", "Neg", [a], {}, wrapped(np.negative, a), (), 17
            yield f"Abs {t}", "Abs", [a], {}, wrapped(np.abs, a), (), 17
        yield f"Sign {t}", "Sign", [a], {}, np.sign(a), (), 17
        exponent, base = small(t, -3, 9, 7, 33), np.where(RNG.random((7, 33)) < 0.5, small(t, -3, 4, 7, 33), a)
        yield f"Pow {t}", "Pow", [base, exponent], {}, wrapped(each(power), base, exponent), (), 17
        yield f"Pow {t}, long exponents", "Pow", [base, np.abs(exponent * 7)], {}, wrapped(each(power), base, np.abs(exponent * 7)), (), 17
        for constant in (0, 1, 2, 3, 5):
            exponents = np.full((), constant, t)
            yield f"Pow {t}, constant {constant}", "Pow", [base, exponents], {}, wrapped(each(power), base, np.broadcast_to(exponents, base.shape)), (1,), 17
        yield f"Pow {t}, constants of one row", "Pow", [base, exponent[0]], {}, wrapped(each(power), base, np.broadcast_to(exponent[0], base.shape)), (1,), 17
        total = wrapped(lambda x: np.sum(x, axis=1, keepdims=True), a)
        yield f"ReduceSum {t}", "ReduceSum", [a, np.array([1], np.int64)], {}, total, (1,), 17
        yield f"ReduceProd {t}", "ReduceProd", [a], {"axes": [1]}, wrapped(lambda x: np.prod(x, axis=1, keepdims=True), a), (), 17
        yield f"ReduceMax {t}", "ReduceMax", [a], {"axes": [0]}, a.max(0, keepdims=True), (), 17
        yield f"ReduceMin {t}", "ReduceMin", [a], {"axes": [0]}, a.min(0, keepdims=True), (), 17
        mean = small(t, -100, 100, 7, 33)
        yield f"ReduceMean {t}", "ReduceMean", [mean], {"axes": [1]}, wrapped(lambda x: each(truncated)(np.sum(x, axis=1, keepdims=True), 33), mean), (), 17
        yield f"ReduceSumSquare {t}", "ReduceSumSquare", [a], {"axes": [1]}, wrapped(lambda x: np.sum(x * x, axis=1, keepdims=True), a), (), 17
        yield f"CumSum {t}", "CumSum", [a, np.array(1, np.int64)], {}, wrapped(lambda x: np.cumsum(x, axis=1), a), (1,), 17
        for to in ALL:
            yield f"Cast {t} to {to}", "Cast", [a], {"to": ONNX[to]}, a.astype(to), (), 17
        yield f"Cast {t} to bool", "Cast", [a], {"to": ONNX["bool"]}, a.astype(bool), (), 17
        yield f"Cast {t} to f32", "Cast", [a], {"to": ONNX["float32"]}, a.astype(np.float32), (), 17
        yield f"ArgMax {t}", "ArgMax", [a], {"axis": 1}, a.argmax(1, keepdims=True), (), 17
        yield f"Where {t}", "Where", [a > b, a, b], {}, np.where(a > b, a, b), (), 17
        yield f"TopK {t}", "TopK", [a, np.array([5], np.int64)], {}, np.sort(a, axis=1)[:, ::-1][:, :5], (1,), 17
        for name, function in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)):
            yield f"{name} {t}", name, [a, b], {}, function(a, b), (), 18
        if t in UNSIGNED:
            bits = small(t, 0, np.iinfo(t).bits, 7, 33)
            yield f"BitShift {t} left", "BitShift", [a, bits], {"direction": "LEFT"}, a << bits, (), 17
            yield f"BitShift {t} right", "BitShift", [a, bits], {"direction": "RIGHT"}, a >> bits, (), 17
        product = [numbers(t, 5, 37), numbers(t, 37, 11)]
        if t in WIDE:
            yield f"MatMul {t}", "MatMul", product, {}, wrapped(np.matmul, *product), (), 17
            yield f"MatMul {t}, constant", "MatMul", product, {}, wrapped(np.matmul, *product), (1,), 17
            batch = [numbers(t, 2, 3, 5, 7), numbers(t, 3, 7, 4)]
            yield f"MatMul {t}, batches", "MatMul", batch, {}, wrapped(np.matmul, *batch), (), 17
            vector = [numbers(t, 7), numbers(t, 7)]
            yield f"MatMul {t}, vectors", "MatMul", vector, {}, wrapped(np.matmul, *vector), (), 17
            bias = numbers(t, 11)
            yield f"Gemm {t}", "Gemm", [product[0], product[1].T.copy(), bias], {"transB": 1}, wrapped(lambda x, y, z: np.matmul(x, y) + z, *product, bias), (), 17
            yield f"Gemm {t}, alpha", "Gemm", [*product, bias], {"alpha": 2.0, "beta": 3.0}, wrapped(lambda x, y, z: np.matmul(x, y) * 2 + z * 3, *product, bias), (), 17
        yield f"Einsum {t}", "Einsum", product, {"equation": "ij,jk->ki"}, wrapped(lambda x, y: np.matmul(x, y).T, *product), (), 17
    for left in ("int8", "uint8"):
        for right in ("int8", "uint8"):
            for depth in (3, 257, 300, 1031):
                a, b = numbers(left, 5, depth), numbers(right, depth, 9)
                a[1], b[:, 1] = np.iinfo(left).max, np.iinfo(right).max  # The largest sums.
                a[2], b[:, 2] = np.iinfo(left).min, np.iinfo(right).min
                expected = a.astype(np.int64) @ b.astype(np.int64)
                yield f"MatMulInteger {left} {right} {depth}", "MatMulInteger", [a, b], {}, expected.astype(np.int32), (), 17
                za, zb = np.array(np.iinfo(left).max, left), numbers(right, 9)
                centred = (a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)
                yield f"MatMulInteger {left} {right} {depth} zeros", "MatMulInteger", [a, b, za, zb], {}, centred.astype(np.int32), (), 17
                yield f"MatMulInteger {left} {right} {depth} constant", "MatMulInteger", [a, b, za, zb], {}, centred.astype(np.int32), (1, 3), 17
            row, column = numbers(left, 300), numbers(right, 300)
            matrix, zero = numbers(right, 300, 7), np.array(np.iinfo(left).max, left)
            moved = row.astype(np.int64) - zero
            yield f"MatMulInteger {left} {right}, a row", "MatMulInteger", [row, matrix, zero], {}, (moved @ matrix.astype(np.int64)).astype(np.int32), (2,), 17
            yield f"MatMulInteger {left} {right}, a column", "MatMulInteger", [numbers(left, 1, 300) * 0 + row, column], {}, (row.astype(np.int64) @ column)[None].astype(np.int32), (), 17
            yield f"MatMulInteger {left} {right}, vectors", "MatMulInteger", [row, column, zero], {}, np.array(moved @ column.astype(np.int64), np.int32), (2,), 17
    yield from products_of_microsoft()
    yield from paddings()
    base = np.array([4, 10 ** 12, 3, -7, (1 << 31) + 1, 10, 2, 94906267, -5, 0, 1 << 40, 7])
    exponent = np.array([0.5, 0.5, 2.5, 3.0, 1.5, 15.0, 62.0, 2.0, -1.0, 0.0, 1.25, 10.5], np.float32)
    yield "Pow int64, f32 exponents", "Pow", [base, exponent], {}, np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(np.int64), (), 17
    for t in WIDE:
        x = small(t, -2000, 2000, 7, 33)
        for axes in ([0], [1]):
            squares = (x.astype(np.int64) ** 2).sum(axes[0], keepdims=True)
            yield f"ReduceL2 {t} {axes}", "ReduceL2", [x], {"axes": axes}, np.sqrt(squares.astype(np.float64)).astype(t), (), 17
            yield f"ReduceLogSum {t} {axes}", "ReduceLogSum", [np.abs(x) + 1], {"axes": axes}, np.log((np.abs(x) + 1).sum(axes[0], keepdims=True).astype(np.float64)).astype(t), (), 17
    for channels, groups in ((3, 1), (40, 1), (64, 2)):
        x, w = numbers("uint8", 2, channels, 6, 5), numbers("int8" if groups == 1 else "uint8", 8, channels // groups, 3, 3)
        x[0], w[0] = 255, np.iinfo(w.dtype).max
        expected = np.zeros((2, 8, 4, 3), np.int64)
        for g in range(groups):
            part = slice(g * channels // groups, (g + 1) * channels // groups)
            of = slice(g * 8 // groups, (g + 1) * 8 // groups)
            for i in range(3):
                for j in range(3):
                    expected[:, of] += np.einsum("nchw,oc->nohw", x[:, part, i:i + 4, j:j + 3].astype(np.int64) - 3, w[of, :, i, j].astype(np.int64))
        yield f"ConvInteger {channels} {groups}", "ConvInteger", [x, w, np.array(3, np.uint8)], {"group": groups}, expected.astype(np.int32), (), 17


def products_of_microsoft():
    """Sums beyond 2^24, which f32 does not hold, that nearly cancel."""
    scale, step = np.float32(0.25), np.array([0.5, 0.03125, 1], np.float32)
    for depth in (40, 1031, 3001):
        a = np.full((4, depth), 255, np.uint8)
        a[1:] = numbers("uint8", 3, depth)
        for right in ("int8", "uint8"):
            b, zero = numbers(right, depth, 3), np.array(3, right)
            b[:, 0] = np.iinfo(right).max
            sums = a.astype(np.int64) @ (b.astype(np.int64) - int(zero))
            expected = sums.astype(np.float32) * (scale * step)
            yield f"MatMulIntegerToFloat {right} {depth}", "MatMulIntegerToFloat", [a, b, scale, step, np.array(0, np.uint8), zero], {}, expected, (2, 3, 4, 5), 17
            bias = np.array([1, -2, 0.5], np.float32)
            yield f"MatMulIntegerToFloat {right} {depth}, constant, a bias", "MatMulIntegerToFloat", [a, b, scale, step, np.array(0, np.uint8), zero, bias], {}, expected + bias, (1, 2, 3, 4, 5), 17
            real = (RNG.standard_normal((4, depth)) * 50).astype(np.float32)
            real[0], real[0, 0] = 255, -1  # The steps are nearly whole ones.
            low, high = np.minimum(real.min(), np.float32(0)), np.maximum(real.max(), np.float32(0))
            width = (high - low) / np.float32(255)
            zero_a = np.clip(np.round(-low / width), 0, 255)
            steps = np.clip(np.round(real / width) + zero_a, 0, 255)
            sums = (steps - zero_a).astype(np.int64) @ (b.astype(np.int64) - int(zero))
            yield f"DynamicQuantizeMatMul {right} {depth}", "DynamicQuantizeMatMul", [real, b, step, zero], {}, sums.astype(np.float32) * (width * step), (1, 2, 3), 17
            tall = np.array([[70000, -5, 1 << 24]], np.int32)
            exact = ((a.astype(np.int64) - 7) @ (b.astype(np.int64) - int(zero)) + tall).astype(np.float32) * (np.float32(0.125) * step)
            for turned in (0, 1):
                operands = [a.T.copy() if turned else a, np.float32(0.125), np.array(7, np.uint8), b.T.copy() if turned else b, step, zero, tall]
                yield f"QGemm {right} {depth}, turned {turned}", "QGemm", operands, {"transA": turned, "transB": turned}, exact, (1, 2, 4, 5), 17
    # Many ties of u8, which follow from one factor.
    a, b = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    scales = [np.float32(0.1), np.float32(0.3), np.float32(0.06)]
    products = (a.astype(np.int64) - 128) * (b.astype(np.int64) - 100)
    expected = np.round(products.astype(np.float32) * (scales[0] * scales[1] / scales[2]) + np.float32(9))  # As ONNX Runtime does it.
    yield "QLinearMul", "QLinearMul", [a, scales[0], np.array(128, np.uint8), b, scales[1], np.array(100, np.uint8), scales[2], np.array(9, np.uint8)], {}, np.clip(expected, 0, 255).astype(np.uint8), (1, 2, 4, 5, 6, 7), 17
    ratios = [scales[0] / scales[2], scales[1] / scales[2]]
    fixed = np.float32(9) - (ratios[0] * np.float32(128) + ratios[1] * np.float32(100))
    inner = (fixed + b * ratios[1].astype(np.float64)).astype(np.float32)  # Multiply-adds round once.
    expected = np.round((a * ratios[0].astype(np.float64) + inner).astype(np.float32))
    yield "QLinearAdd", "QLinearAdd", [a, scales[0], np.array(128, np.uint8), b, scales[1], np.array(100, np.uint8), scales[2], np.array(9, np.uint8)], {}, np.clip(expected, 0, 255).astype(np.uint8), (1, 2, 4, 5, 6, 7), 17


def paddings():
    around = np.array([1, 0, 2, 3])
    for t in ALL:
        x = numbers(t, 3, 5)
        for value in {np.iinfo(t).max, np.iinfo(t).min, 5}:
            padded = np.pad(x, ((1, 2), (0, 3)), constant_values=value)
            number = np.array(value, t)
            yield f"Pad {t}, {value}", "Pad", [x, around, number], {}, padded, (1, 2), 17
            yield f"Pad {t}, {value} of the data", "Pad", [x, around, number], {}, padded, (1,), 17
    x = RNG.standard_normal((3, 5)).astype(np.float32)
    yield "Pad float32, a value of the data", "Pad", [x, np.array([1, -1, 0, 3]), np.float32(0.1)], {}, np.pad(x[:, 1:], ((1, 0), (0, 3)), constant_values=np.float32(0.1)), (1,), 17


MICROSOFT = ("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "QGemm", "QLinearMul", "QLinearAdd")
COMPARISONS = {"Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Equal": np.equal}


def model_of(op, inputs, attributes, constants, opset, output):
    names = [f"in{i}" for i in range(len(inputs))]
    outputs = ["y", "where"] if op == "TopK" else ["y"]
    given = {name: value for i, (name, value) in enumerate(zip(names, inputs)) if i not in constants}
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, domain="com.microsoft" if op in MICROSOFT else "", **attributes)], "graph",
        [helper.make_tensor_value_info(name, ONNX[str(value.dtype)], value.shape) for name, value in given.items()],
        [helper.make_tensor_value_info("y", output, None)],
        [helper.make_tensor(names[i], ONNX[str(inputs[i].dtype)], inputs[i].shape, inputs[i].tobytes(), raw=True) for i in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8), given


def check(op, inputs, attributes, expected, constants, opset):
    """What is wrong; None: nothing."""
    if expected is None:
        expected = COMPARISONS[op](*inputs)
    model, given = model_of(op, inputs, attributes, constants, opset, ONNX[str(expected.dtype)])
    try:
        with openhpu.Session(openhpu.compile(model)) as session:
            found = session.run(given)["y"]
    except openhpu.Error as error:
        return f"{error}"
    if found.dtype == expected.dtype and np.array_equal(found, expected):
        return None
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype} {found.shape} instead of {expected.dtype} {expected.shape}"
    at = tuple(np.argwhere(found != expected)[0])
    return f"{np.count_nonzero(found != expected)} of {found.size} differ: at {tuple(map(int, at))} is {found[at]} instead of {expected[at]}"


if __name__ == "__main__":
    sys.exit(run_cases(arguments(__doc__), cases(), check))
