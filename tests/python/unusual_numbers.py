# SPDX-License-Identifier: Apache-2.0
"""Unusual models: element types, numbers that are not finite or not in a double, and limits."""

import numpy as np
from onnx import TensorProto

from unusual_case import Case, f32, i64, node, noise, relu

X = noise(3, 4)
INF, NAN = np.inf, np.nan
ODD = f32([[NAN, 1, -INF, INF]])
WIDE = i64([[2**40, -3], [2**53 + 1, 7]])  # more than a double or 32 bits hold
DOUBLES = np.random.RandomState(0).uniform(-1, 1, (3, 4))
HALVES = DOUBLES.astype(np.float16)
HALVES_FLIPPED = np.ascontiguousarray(HALVES.T)
MASK = X > 0
LOW, HIGH = f32(-1), f32(1)
BASES, EXPONENTS = f32(-2, -2, 2, 0, 0, 4, NAN, 1), f32(3, 0.5, -1, 0, -1, 0.5, 0, NAN)
FAR = f32(1e3, 1e5, 1e7, -3e8)
STEEP = f32(-1e9, 1e9, INF, -INF, 1e-20)
EXP_RANGE = f32(88.7, 89, -90, -104, 0, -INF)
LOG_RANGE = f32(0, -1, 1e-42, 1, INF)
TOP = np.e / (1 + np.e)
with np.errstate(all="ignore"):
    POWERS, CUBES = np.power(BASES, EXPONENTS), np.power(BASES, np.float32(3))
    EXPONENTIALS, LOGARITHMS = np.exp(EXP_RANGE), np.log(LOG_RANGE)


def unary(name, op, x, expected, **attributes):
    return Case(name, [node(op, ["a"], ["b"], **attributes)], {"a": x}, [("b", np.asarray(expected))])


def binary(name, op, x, y, expected, refusal=None, **attributes):
    return Case(name, [node(op, ["a", "c"], ["b"], **attributes)], {"a": x, "c": y},
                [("b", np.asarray(expected))], refusal=refusal)


INTEGERS = [
    binary("i64_add", "Add", WIDE, WIDE, WIDE + WIDE),
    binary("i64_mul", "Mul", WIDE, i64(3, 5), WIDE * i64(3, 5)),
    binary("i64_div_truncates", "Div", i64(-7, 7, 5), i64(2, -2, 2), i64(-3, -3, 2)),
    binary("i64_div_by_0", "Div", i64(1, 0, -1), i64(0, 0, 0), i64(0, 0, 0)),
    binary("i32_min_div", "Div", np.array([-2**31, 6, 8], np.int32), np.array([-1, 2, 2], np.int32),
           np.array([-2**31, 3, 4], np.int32)),
    binary("i32_mod_has_the_divisor_sign", "Mod", np.array([-7, 7, 5], np.int32), np.array([3, -3, 3], np.int32),
           np.array([2, -2, 2], np.int32)),
    binary("i64_equal", "Equal", WIDE, WIDE + i64([[1, 0], [0, 0]]), np.array([[False, True], [True, True]])),
    binary("i64_pow", "Pow", i64(2, 3, -2), i64(3, 2, 3), i64(8, 9, -8), refusal="Pow.*(i64|integer)"),
    binary("i64_matmul", "MatMul", WIDE, WIDE, WIDE @ WIDE, refusal="MatMul.*integer operands"),
    binary("u8_add_wraps", "Add", np.array([250, 3], np.uint8), np.array([250, 3], np.uint8),
           np.array([244, 6], np.uint8)),
    binary("i64_gather", "Gather", WIDE, i64(1, 0), WIDE[[1, 0]]),
    Case("i64_where", [node("Where", ["c", "a", "k"], ["b"])],
         {"c": np.array([True, False]), "a": WIDE, "k": WIDE * 2}, [("b", np.where([True, False], WIDE, WIDE * 2))]),
    Case("i64_sum", [node("ReduceSum", ["a", "x"], ["b"], keepdims=0)], {"a": WIDE}, [("b", WIDE.sum(0))],
         {"x": np.array([0])}),
    unary("i32_max", "ReduceMax", np.array([[4, -3], [1, 7]], np.int32), np.array([4, 7], np.int32),
          axes=[0], keepdims=0),
    unary("arg_max", "ArgMax", X, X.argmax(1), axis=1, keepdims=0),
]

TYPES = [
    Case("f64_add", [node("Add", ["a", "a"], ["b"])], {"a": DOUBLES}, [("b", DOUBLES + DOUBLES)],
         refusal="Add.*f64"),
    Case("f64_matmul", [node("MatMul", ["a", "w"], ["b"])], {"a": DOUBLES}, [("b", DOUBLES @ DOUBLES.T)],
         {"w": np.ascontiguousarray(DOUBLES.T)}, refusal="MatMul.*f64"),
    unary("f16_relu", "Relu", HALVES, relu(HALVES)),
    Case("f16_matmul", [node("MatMul", ["a", "w"], ["b"])], {"a": HALVES}, [("b", HALVES @ HALVES_FLIPPED)],
         {"w": HALVES_FLIPPED}, flags=("--rtol", "1e-2")),
    unary("bool_not", "Not", MASK, ~MASK),
    binary("bool_and", "And", MASK, ~MASK[:1], MASK & ~MASK[:1]),
    unary("bool_identity", "Identity", MASK, MASK),
    unary("f32_to_i64", "Cast", X * 1e6, (X * 1e6).astype(np.int64), to=TensorProto.INT64),
    unary("f32_to_i64_beyond_32_bits", "Cast", f32(1e12, -3e15, 2.0**40),
          f32(1e12, -3e15, 2.0**40).astype(np.int64), to=TensorProto.INT64),
    unary("i64_to_f32", "Cast", WIDE, WIDE.astype(np.float32), to=TensorProto.FLOAT),
    unary("f32_to_bool", "Cast", f32(0, 0.5, -0.0, NAN), np.array([False, True, False, True]), to=TensorProto.BOOL),
    unary("f32_to_u8", "Cast", f32(0, 200.7, 255), np.array([0, 200, 255], np.uint8), to=TensorProto.UINT8),
    unary("i8_to_f32", "Cast", np.array([-128, 5], np.int8), f32(-128, 5), to=TensorProto.FLOAT),
    Case("quantize_dequantize", [node("QuantizeLinear", ["a", "s", "z"], ["q"]),
                                 node("DequantizeLinear", ["q", "s", "z"], ["b"])],
         {"a": f32(0.5, 1.5, 2.5, -200)}, [("b", f32(0, 2, 2, -128))], {"s": f32(1), "z": np.array(0, np.int8)}),
]

NOT_FINITE = [
    unary("nan_relu", "Relu", ODD, relu(ODD)),
    binary("nan_max", "Max", ODD, f32(0, 0, 0, 0), relu(ODD)),
    binary("nan_min", "Min", f32(0, 0, 0, 0), ODD, np.minimum(0, ODD)),
    unary("nan_reduce_max", "ReduceMax", ODD, f32([NAN]), axes=[1], keepdims=0),
    Case("nan_clip", [node("Clip", ["a", "l", "h"], ["b"])], {"a": ODD}, [("b", np.clip(ODD, -1, 1))],
         {"l": LOW, "h": HIGH}),
    unary("nan_max_pool", "MaxPool", f32([[[[1, NAN], [0, 2]]]]), f32([[[[NAN]]]]), kernel_shape=[2, 2]),
    Case("is_nan_is_inf", [node("IsNaN", ["a"], ["b"]), node("IsInf", ["a"], ["c"], detect_negative=0)],
         {"a": ODD}, [("b", np.isnan(ODD)), ("c", np.isposinf(ODD))]),
    unary("softmax_of_minus_infinity", "Softmax", f32([[0, -INF, 1], [-INF, -INF, 0]]),
          f32([[1 - TOP, 0, TOP], [0, 0, 1]]), axis=1),
    unary("softmax_of_1000", "Softmax", f32([[1000, 1001, -3e38]]), f32([[1 - TOP, TOP, 0]]), axis=1),
    binary("f32_div_by_0", "Div", f32(1, 0, -1), f32(0, 0, 0), f32(INF, NAN, -INF)),
]

LIMITS = [
    unary("exp_at_its_limits", "Exp", EXP_RANGE, EXPONENTIALS),
    unary("log_at_its_limits", "Log", LOG_RANGE, LOGARITHMS),
    binary("pow_of_special_numbers", "Pow", BASES, EXPONENTS, POWERS),
    Case("pow_3_of_special_numbers", [node("Pow", ["a", "c"], ["b"])], {"a": BASES}, [("b", CUBES)], {"c": f32(3)}),
    binary("f32_fmod", "Mod", f32(-7, 7.5, 5), f32(3, -3, 3), np.fmod(f32(-7, 7.5, 5), f32(3, -3, 3)), fmod=1),
    unary("round_half_to_even", "Round", f32(0.5, 1.5, -2.5, 1e10), f32(0, 2, -2, 1e10)),
    unary("sign_of_zeros", "Sign", f32(0, -0.0, 3, -3), f32(0, 0, 1, -1)),
    unary("sin_far_out", "Sin", FAR, np.sin(FAR.astype(np.float64)).astype(np.float32)),
    unary("tanh_at_its_limits", "Tanh", STEEP, np.tanh(STEEP)),
]

CASES = INTEGERS + TYPES + NOT_FINITE + LIMITS
