#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear per tensor, axis and block, to and from 4, 8 and 16 bits and fp8, with sub-byte packing, on a device against NumPy. Exit codes: 0 ok, 1 a difference or a failure."""
import sys

import numpy as np
from onnx import TensorProto, helper
from openhpu_cases import openhpu

UINT4, INT4 = 21, 22  # Newer than Debian's onnx.
RANGES = {UINT4: (0, 15), INT4: (-8, 7), TensorProto.UINT8: (0, 255), TensorProto.INT8: (-128, 127), TensorProto.UINT16: (0, 65535), TensorProto.INT16: (-32768, 32767)}
HELD = {UINT4: np.uint8, INT4: np.int8, TensorProto.UINT8: np.uint8, TensorProto.INT8: np.int8, TensorProto.UINT16: np.uint16, TensorProto.INT16: np.int16}
RNG = np.random.default_rng(3)


def tensor(name, code, values):
    """A constant; two 4-bit integers a byte, the lower half first."""
    values = np.asarray(values)
    raw = values.tobytes()
    if code in (UINT4, INT4):
        halves = np.append(values.flatten(), np.zeros(values.size % 2, values.dtype)).astype(np.int64) & 15
        raw = (halves[::2] | halves[1::2] << 4).astype(np.uint8).tobytes()
    proto = TensorProto(name=name, data_type=code, dims=values.shape, raw_data=raw)
    return proto


def spread(parameter, shape, axis, block):
    """The parameter of each element."""
    if parameter.ndim == 0:
        return np.broadcast_to(parameter, shape)
    if block:
        return np.take(np.repeat(parameter, block, axis), range(shape[axis]), axis)
    return np.broadcast_to(parameter.reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape)


def run(nodes, given, constants, output, opset=21):
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info(name, code, value.shape) for name, (code, value) in given.items()],
        [helper.make_tensor_value_info("y", output, None)], [tensor(name, code, value) for name, (code, value) in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    with openhpu.Session(openhpu.compile(model)) as session:
        return session.run({name: value for name, (_, value) in given.items()})["y"]


def parameters(code, shape, axis, block, kind):
    low, high = RANGES[code]
    if kind == "tensor":
        of = ()
    elif kind == "axis":
        of = (shape[axis],)
    else:
        of = tuple(-(-size // block) if d == axis else size for d, size in enumerate(shape))
    return RNG.uniform(0.01, 0.2, of).astype(np.float32), RNG.integers(low, high, of, endpoint=True).astype(HELD[code])


def check_pair(code, kind, shape, axis, block, constant):
    scale, zero = parameters(code, shape, axis, block, kind)
    scale = np.asarray(scale, np.float32)
    zero = np.asarray(zero, HELD[code])
    low, high = RANGES[code]
    attributes = {} if kind == "tensor" else {"axis": axis}
    if kind == "block":
        attributes["block_size"] = block
    s, z = spread(scale, shape, axis, block), spread(zero, shape, axis, block).astype(np.int64)
    x = (RNG.uniform(low - 9, high + 9, shape) - z).astype(np.float32) * s
    expected = np.clip(np.rint(x / s).astype(np.int64) + z, low, high).astype(HELD[code])
    both = {"scale": (TensorProto.FLOAT, scale), "zero": (code, zero)}
    given, constants = ({}, both) if constant else (both, {})
    found = run([helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], **attributes)], {"x": (TensorProto.FLOAT, x), **given}, constants, code)
    if not np.array_equal(found, expected):
        return f"quantised: {np.count_nonzero(found != expected)} of {found.size} differ"
    real = (expected.astype(np.float32) - z.astype(np.float32)) * s
    node = helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], **attributes)
    operand = {"q": (code, expected)}
    if constant:  # As weights are: with what reads them, so that something runs.
        nodes = [helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], **attributes), helper.make_node("Mul", ["x", "w"], ["y"])]
        found, real = run(nodes, {"x": (TensorProto.FLOAT, x)}, {**operand, **constants}, TensorProto.FLOAT), x * real
    else:
        found = run([node], {**operand, **given}, constants, TensorProto.FLOAT)
    return None if np.array_equal(found, real) else f"dequantised: {np.count_nonzero(found != real)} of {found.size} differ"


def check_cast(code):
    low, high = RANGES[code]
    x = np.array([low - 5.3, low, -0.5, 0.5, 1.5, 2.4, high - 0.4, high, high + 7], np.float32)
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=code)]
    found = run(nodes, {"x": (TensorProto.FLOAT, x)}, {}, code)
    if not np.array_equal(found, np.clip(np.rint(x), low, high).astype(HELD[code])):
        return f"of floats: {found}"
    whole = np.arange(-40, 40, dtype=np.int32)
    expected = ((whole - low) % 16 + low).astype(HELD[code])
    found = run(nodes, {"x": (TensorProto.INT32, whole)}, {}, code)
    return None if np.array_equal(found, expected) else f"of integers: {found}"


def check_output_type():
    x = RNG.standard_normal((3, 10)).astype(np.float32)
    found = run([helper.make_node("QuantizeLinear", ["x", "scale"], ["y"], output_dtype=TensorProto.INT16)], {"x": (TensorProto.FLOAT, x)}, {"scale": (TensorProto.FLOAT, np.float32(0.001))}, TensorProto.INT16)
    if not np.array_equal(found, np.rint(x / np.float32(0.001)).astype(np.int16)):
        return "i16"
    whole = np.array([(1 << 30) + 1, (1 << 30) + 3, -(1 << 31)], np.int32)
    zero = np.array(1 << 30, np.int32)
    found = run([helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"])], {"x": (TensorProto.INT32, whole)}, {"scale": (TensorProto.FLOAT, np.float32(2)), "zero": (TensorProto.INT32, zero)}, TensorProto.FLOAT)
    return None if list(found[:2]) == [2, 6] else f"i32: {found}"


def main():
    failed = tested = 0
    checks = [("output types", check_output_type, ())] + [(f"cast to {'u' if code == UINT4 else 'i'}4", check_cast, (code,)) for code in (UINT4, INT4)]
    for code in RANGES:
        for constant in (True, False):
            checks.append((f"{code} of a tensor", check_pair, (code, "tensor", (3, 7), 1, 0, constant)))
            for axis in (0, 1, 2):
                checks.append((f"{code} along {axis}", check_pair, (code, "axis", (3, 5, 6), axis, 0, constant)))
                for block in (1, 2, 3):
                    checks.append((f"{code} in blocks of {block} along {axis}", check_pair, (code, "block", (6, 5, 4), axis, block, constant)))
    for name, check, arguments in checks:
        tested += 1
        try:
            wrong = check(*arguments)
        except openhpu.Error as error:
            wrong = str(error)
        if wrong:
            failed += 1
            print(f"FAIL  {name} {arguments}: {wrong}")
    print(f"{tested} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
