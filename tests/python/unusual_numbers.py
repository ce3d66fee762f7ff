# SPDX-License-Identifier: Apache-2.0
"""Unusual models: element types, numbers that are not finite or not in a double, and limits."""

import numpy as np
from onnx import TensorProto

from unusual_case import Case, f32, i64, node, noise, ones, relu

X = noise(3, 4)
INF, NAN = np.inf, np.nan
EXACT = ("--rtol", "0", "--atol", "0")
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
    binary("i64_pow", "Pow", i64(2, 3, -2), i64(3, 2, 3), i64(8, 9, -8)),
    Case("i64_pow_of_a_constant_is_exact", [node("Pow", ["a", "c"], ["b"])], {"a": i64(16777217, 3, -2)},
         [("b", i64(281475010265089, 9, 4))], {"c": f32(2)}, flags=EXACT),
    binary("f32_pow_of_odd_exponents_beyond_f32", "Pow", f32(-1, -1.0000001, 0.9999999, -0.0),
           i64(2**24 + 1, 2**24 + 1, -2**24 - 5, -3), f32(-1, -7.389056, 7.3890615, -INF)),
    Case("gather_outside", [node("Gather", ["a", "c"], ["b"])], {"a": X}, [("b", X)], {"c": i64(0, 5)},
         refusal="Gather.*index 5 is outside of dimension 0"),
    binary("i64_matmul", "MatMul", WIDE, WIDE, WIDE @ WIDE),
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
    Case("f64_add", [node("Add", ["a", "a"], ["b"])], {"a": DOUBLES}, [("b", DOUBLES + DOUBLES)]),
    Case("f64_matmul", [node("MatMul", ["a", "w"], ["b"])], {"a": DOUBLES}, [("b", DOUBLES @ DOUBLES.T)],
         {"w": np.ascontiguousarray(DOUBLES.T)}),
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

I8_ENDS = np.array([[5, -128, -127, 127], [127, 126, 127, 126]], np.int8)
I32_ENDS = np.array([[2**31 - 1, -2**31, 1 - 2**31], [1, 0, -1]], np.int32)
I64_ENDS = np.array([[-2**63, 2**63 - 1, -2**63], [1, 0, -1]], np.int64)
U8_ENDS = np.array([[255, 0, 1, 0], [255, 254, 254, 255]], np.uint8)
U64_ENDS = np.array([[2**63, 2**64 - 1, 2**63 - 1], [5, 6, 7]], np.uint64)
STRANGE = f32([[1, NAN, -INF, NAN], [INF, INF, 3, 3], [-INF, -INF, -INF, -INF]])
ARGS = [case for name, data in (("i8", I8_ENDS), ("i32", I32_ENDS), ("i64", I64_ENDS), ("u8", U8_ENDS), ("u64", U64_ENDS),
                                ("f32_strange", STRANGE))
        for case in (
            unary(f"arg_min_{name}", "ArgMin", data, data.argmin(1), axis=1, keepdims=0),
            unary(f"arg_max_{name}", "ArgMax", data, data.argmax(1), axis=1, keepdims=0),
            unary(f"arg_min_last_{name}", "ArgMin", data, data.shape[1] - 1 - data[:, ::-1].argmin(1), axis=1, keepdims=0,
                  select_last_index=1))]

EXACTLY = ("--rtol", "0", "--atol", "0")
STEPS = (np.arange(-2000, 2000) * 0.5 + 0.25).astype(np.float32)
OUTSIDE = f32(2e19, -2e19, 3.4e38, -3.4e38, 1e-30, -1e-3, 0.5, 99, 9999, 10001, INF, -INF, NAN, 0)
UPWARD = f32(1, 1.0001, 2, 99, 9999, 10001, 2e19, 3.4e38, INF, 0.5, 0, -0.5, -2, -1e10, -3e38, -INF, NAN)
STEEPER = f32(88, 88.5, 89, 89.4, 90, -88.5, -89.4, -90, 1e-20, 1, INF, -INF, NAN, 0)
TURNS = f32(1e16, 2.5e17, -1e22, 1e30, -3.4e38, 1e-40, 0, INF, -INF, NAN, 1.5707964, 3.1415927, 710)
NEGATIVE = f32(-8, -100, -1e5, -1e10, -1e30, -3.4e38, 0, 1)
LSE = f32([[-INF, -INF], [INF, 1], [INF, -INF], [NAN, 1], [1000, 1000], [-1000, -INF]])
BIG_QUOTIENTS = (f32(1e30, -3.4e38, 5e8, 1e-40, INF, 5, 5, NAN, 3.4e38), f32(3, 7e-30, 0.3, 3e-45, 2, INF, 0, 1, 1e-45))
LIMIT = np.finfo(np.float32).max
BEYOND = f32(2.0**63, 1.5 * 2.0**63, 18446742974197923840.0, 2.0**64, -1, NAN, INF, 7.9)
ZEROS = f32([[0, 0, 0], [3, 0, -4], [1, 1, 1]])
with np.errstate(all="ignore"):
    WIDER = [a.astype(np.float64) for a in (OUTSIDE, UPWARD, STEEPER, TURNS, NEGATIVE, *BIG_QUOTIENTS)]
    ASINH, ACOSH = np.arcsinh(WIDER[0]), np.arccosh(WIDER[1])
    SINH, COSH = (np.asarray(f(WIDER[2]), np.float32) for f in (np.sinh, np.cosh))
    SIN, COS, TAN = (np.asarray(f(WIDER[3]), np.float32) for f in (np.sin, np.cos, np.tan))
    GELU_TANH = (WIDER[4] / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (WIDER[4] + 0.044715 * WIDER[4]**3)))).astype(np.float32)
    REMAINDERS = np.fmod(WIDER[5], WIDER[6]).astype(np.float32)
    LSE_SUMS = np.logaddexp.reduce(LSE.astype(np.float64), axis=1).astype(np.float32)


def quantize(name, x, scale, **attributes):
    """As NumPy divides, by a constant scale."""
    codes = np.clip(np.round(x / np.float32(scale)) + 3, 0, 255).astype(np.uint8)
    return Case(name, [node("QuantizeLinear", ["a", "s", "z"], ["b"], **attributes)], {"a": x}, [("b", codes)],
                {"s": f32(scale), "z": np.array(3, np.uint8)}, flags=EXACTLY)


ENDS = [
    quantize("quantize_4.5_by_0.6", f32(4.5, 1.5, 7.5, -0.9), 0.6),
    quantize("quantize_by_0.1", STEPS * f32(0.1), 0.1),
    quantize("quantize_by_7", STEPS * f32(7), 7),
    quantize("quantize_by_an_eighth", STEPS * f32(0.125), 0.125),
    Case("divide_by_a_constant", [node("Div", ["a", "c"], ["b"])], {"a": STEPS}, [("b", STEPS / f32(0.6))],
         {"c": f32(0.6)}, flags=EXACTLY),
    Case("mean_of_three", [node("Mean", ["a", "a", "a"], ["b"])], {"a": np.trunc(STEPS)}, [("b", np.trunc(STEPS))],
         flags=EXACTLY),
    unary("mean_of_49_ones", "GlobalAveragePool", ones(1, 3, 7, 7), ones(1, 3, 1, 1)),
    unary("asinh_far_out", "Asinh", OUTSIDE, ASINH.astype(np.float32)),
    unary("acosh_far_out", "Acosh", UPWARD, ACOSH.astype(np.float32)),
    unary("sinh_at_its_limits", "Sinh", STEEPER, SINH),
    unary("cosh_at_its_limits", "Cosh", STEEPER, COSH),
    unary("sin_of_many_turns", "Sin", TURNS, SIN),
    unary("cos_of_many_turns", "Cos", TURNS, COS),
    unary("tan_of_many_turns", "Tan", TURNS[:-3], TAN[:-3]),
    Case("gelu_of_large_negatives", [node("Gelu", ["a"], ["b"])], {"a": NEGATIVE},
         [("b", np.maximum(NEGATIVE, 0) * f32(0.84134475))], opset=20),
    Case("gelu_tanh_of_large_negatives", [node("Gelu", ["a"], ["b"], approximate="tanh")], {"a": NEGATIVE},
         [("b", GELU_TANH)], opset=20),
    binary("fmod_of_large_quotients", "Mod", *BIG_QUOTIENTS, REMAINDERS, fmod=1),
    unary("f32_to_u64_beyond_2^63", "Cast", BEYOND,
          np.array([2**63, 3 * 2**62, 18446742974197923840, 2**64 - 1, 0, 0, 2**64 - 1, 7], np.uint64), to=TensorProto.UINT64),
    unary("f32_to_i32_saturates", "Cast", f32(3e9, -3e9, NAN, INF, -INF, -7.9),
          np.array([2**31 - 1, -2**31, 0, 2**31 - 1, -2**31, -7], np.int32), to=TensorProto.INT32),
    unary("f32_to_u8_saturates", "Cast", f32(300, -3, NAN, INF, -INF, 255.9),
          np.array([255, 0, 0, 255, 0, 255], np.uint8), to=TensorProto.UINT8),
    unary("log_sum_exp_of_infinities", "ReduceLogSumExp", LSE, LSE_SUMS, axes=[1], keepdims=0),
    unary("log_sum_exp_of_infinities_kept", "ReduceLogSumExp", LSE, LSE_SUMS[:, None], axes=[1]),
    unary("lp_norm_of_zeros", "LpNormalization", ZEROS, f32([[0, 0, 0], [0.6, 0, -0.8], [3**-0.5] * 3]), axis=1),
    unary("l1_norm_of_zeros", "LpNormalization", ZEROS, f32([[0, 0, 0], [3 / 7, 0, -4 / 7], [1 / 3] * 3]), axis=1, p=1),
    Case("dynamic_quantize_of_zeros", [node("DynamicQuantizeLinear", ["a"], ["b", "s", "z"])], {"a": ZEROS[:1]},
         [("b", np.zeros((1, 3), np.uint8)), ("s", f32(1)), ("z", np.array(0, np.uint8))]),
    Case("clip_without_limits", [node("Clip", ["a"], ["b"])], {"a": ODD},
         [("b", f32([[NAN, 1, -LIMIT, LIMIT]]))], flags=EXACTLY),
    Case("clip_without_limits_6", [node("Clip", ["a"], ["b"])], {"a": ODD},
         [("b", f32([[NAN, 1, -LIMIT, LIMIT]]))], opset=6, flags=EXACTLY),
    Case("clip_from_below", [node("Clip", ["a", "l"], ["b"])], {"a": ODD}, [("b", f32([[NAN, 1, 0, LIMIT]]))],
         {"l": f32(0)}, flags=EXACTLY),
    Case("clip_to_an_upper_limit_below_the_lower_one", [node("Clip", ["a", "l", "h"], ["b"])], {"a": ODD, "h": f32(-1)},
         [("b", f32([[NAN, -1, -1, -1]]))], {"l": f32(0)}, flags=EXACTLY),
    Case("clip_i64_at_its_ends", [node("Clip", ["a", "l", "h"], ["b"])], {"a": I64_ENDS},
         [("b", np.clip(I64_ENDS, -2**53 - 1, 2**53 + 1))], {"l": i64(-2**53 - 1), "h": i64(2**53 + 1)}),
    unary("clip_i64_without_limits", "Clip", I64_ENDS, I64_ENDS),
]

def scaled_product(name, x, weight, factors, expected, bias=None):
    """(x * weight + bias) * factor of each of two columns."""
    return Case(name, [node("MatMul", ["a", "w"], ["y"]), *([node("Add", ["y", "c"], ["z"])] if bias else []),
                       node("Mul", ["z" if bias else "y", "s"], ["b"])], {"a": f32([[x]])}, [("b", f32([expected]))],
                {"w": f32([[weight, weight]]), "s": f32(*factors), **({"c": f32(bias, bias)} if bias else {})})


def scaled_convolution(name, x, weight, gamma, variance, expected):
    return Case(name, [node("Conv", ["a", "w"], ["y"]),
                       node("BatchNormalization", ["y", "s", "z", "z", "v"], ["b"], epsilon=0.0)],
                {"a": x * ones(1, 1, 1, 2)}, [("b", expected * ones(1, 2, 1, 2))],
                {"w": weight * ones(2, 1, 1, 1), "s": gamma * ones(2), "z": 0 * ones(2), "v": variance * ones(2)})


# Factors that the weights cannot take: no number on the model's own way leaves f32.
FACTORS = [
    scaled_product("factor_that_weights_overflow_with", 1e-30, 5e29, (1e10, 1e10), (5e9, 5e9)),
    scaled_product("factor_that_weights_vanish_with", 1e30, 1e-30, (1e-20, 1e-20), (1e-20, 1e-20)),
    scaled_product("factor_that_weights_are_denormal_with", 1e30, 1e-30, (1e-14, 1e-14), (1e-14, 1e-14)),
    scaled_product("factor_of_one_column", 1e-30, 5e29, (2, 1e10), (1, 5e9)),
    scaled_product("factor_that_a_bias_overflows_with", -2.0**50, 2.0**50, (2.0**33, 2.0**33), (0, 0), bias=2.0**100),
    scaled_product("factor_of_0", 2, 3, (0, 2), (0, 12)),
    scaled_convolution("batch_norm_that_weights_overflow_with", 1e-30, 5e29, 1e10, 1, 5e9),
    scaled_convolution("batch_norm_of_no_variance", -1, 3, 1, 0, -INF),
    Case("biases_whose_sum_overflows", [node("MatMul", ["a", "w"], ["y"]), node("Add", ["y", "c"], ["z"]),
                                        node("Add", ["z", "c"], ["b"])],
         {"a": f32([[-1e19]])}, [("b", f32([[3e38]]))], {"w": f32([[3e19]]), "c": f32([3e38])}),
]

CASES = FACTORS + INTEGERS + TYPES + NOT_FINITE + LIMITS + ARGS + ENDS
