# SPDX-License-Identifier: Apache-2.0
"""Models compiled to narrow types whose numbers do not fit those types: statistics, masks, integers.

References are computed in float64 (NumPy, PyTorch) or in integers, never by our own tools.
"""

import numpy as np
import torch
import torch.nn.functional as F

from unusual_case import Case, f32, i64, node, noise, ones

NARROW = ("bf16", "f16", "fp8")
LOWEST = np.finfo(np.float32).min
EXACT = ("--rtol", "0", "--atol", "0")
PLUS_MINUS = f32([[300, -300, 300, -300] * 8, [600, -600, -600, 600] * 8, [3e-4, -3e-4, 3e-4, 3e-4] * 8])
IMAGE = np.ascontiguousarray(PLUS_MINUS.reshape(1, 6, 4, 4))
FAR = np.float32(1000) + 3 * noise(1, 6, 4, 4)
WEIGHTS = f32(*(0.5 + noise(32) / 4))
EYE = np.eye(32, dtype=np.float32)


def at_each(name, nodes, inputs, outputs, constants=None, flags=(), precisions=NARROW, **more):
    return [Case(f"{name}_at_{p}", nodes, inputs, outputs, constants or {}, flags=("--precision", p, *flags), **more)
            for p in precisions]


def wide(x):
    return np.asarray(x, np.float64)


def narrow(x):
    return np.asarray(x, np.float32)


def rms(x, epsilon=1e-9):
    return wide(x) / np.sqrt((wide(x)**2).mean(-1, keepdims=True) + epsilon)


def normal(x, axes, epsilon=0.0):
    centred = wide(x) - wide(x).mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


def torch64(function, x, *args, **kwargs):
    return narrow(function(torch.tensor(wide(x)), *args, **kwargs).numpy())


LAYER_MEAN = wide(PLUS_MINUS + 500).mean(-1, keepdims=True)
LAYER_DEVIATION = 1 / np.sqrt(wide(PLUS_MINUS + 500).var(-1, keepdims=True) + 1e-12)
HALF = PLUS_MINUS[:2].astype(np.float16)
# Behind a product: the numbers are narrow before they are squared.
THROUGH = [node("MatMul", ["a", "eye"], ["x"])]

LARGE = f32(1e38, np.inf, -np.inf, 70000, np.nan)

STATISTICS = [
    *at_each("is_inf", [node("IsInf", ["a"], ["b"]), node("Sub", ["a", "a"], ["d"]), node("IsNaN", ["d"], ["c"])],
             {"a": LARGE}, [("b", np.isinf(LARGE)), ("c", ~np.isfinite(LARGE))]),
    *at_each("rms_norm", [node("RMSNormalization", ["a", "w"], ["b"], epsilon=1e-9)], {"a": PLUS_MINUS},
             [("b", narrow(rms(PLUS_MINUS) * WEIGHTS))], {"w": WEIGHTS}, opset=23),
    *at_each("rms_norm_of_a_product",
             [*THROUGH, node("RMSNormalization", ["x", "w"], ["n"], epsilon=1e-9), node("MatMul", ["n", "eye"], ["b"])],
             {"a": PLUS_MINUS}, [("b", narrow(rms(PLUS_MINUS) * WEIGHTS))], {"w": WEIGHTS, "eye": EYE}, opset=23,
             precisions=("bf16", "f16")),
    *at_each("norm_of_llama",
             [*THROUGH, node("Pow", ["x", "two"], ["s"]), node("ReduceMean", ["s"], ["m"], axes=[-1]),
              node("Add", ["m", "e"], ["v"]), node("Sqrt", ["v"], ["d"]), node("Reciprocal", ["d"], ["r"]),
              node("Mul", ["x", "r"], ["n"]), node("Mul", ["n", "w"], ["y"]), node("MatMul", ["y", "eye"], ["b"])],
             {"a": PLUS_MINUS}, [("b", narrow(rms(PLUS_MINUS) * WEIGHTS))],
             {"w": WEIGHTS, "two": f32(2), "e": f32(1e-9), "eye": EYE}, precisions=("bf16", "f16")),
    *at_each("zeros_with_a_tiny_epsilon", [node("RMSNormalization", ["a", "w"], ["b"], epsilon=1e-12)],
             {"a": 0 * PLUS_MINUS}, [("b", 0 * PLUS_MINUS)], {"w": WEIGHTS}, opset=23),
    *at_each("mean_variance", [node("MeanVarianceNormalization", ["a"], ["b"], axes=[0, 2, 3])], {"a": IMAGE},
             [("b", narrow(normal(IMAGE, (0, 2, 3))))]),
    *at_each("mean_variance_far_from_0", [node("MeanVarianceNormalization", ["a"], ["b"], axes=[0, 2, 3])],
             {"a": FAR}, [("b", narrow(normal(FAR, (0, 2, 3))))], precisions=("f16", "bf16")),
    *at_each("layer_norm_with_statistics",
             [node("LayerNormalization", ["a", "w", "z"], ["b", "mean", "deviation"], epsilon=1e-12)],
             {"a": PLUS_MINUS + 500},
             [("b", narrow(normal(PLUS_MINUS + 500, -1, 1e-12) * WEIGHTS)), ("mean", narrow(LAYER_MEAN)),
              ("deviation", narrow(LAYER_DEVIATION))], {"w": WEIGHTS, "z": 0 * WEIGHTS}, precisions=("f16",),
             flags=("--rtol", "1e-2")),
    *at_each("instance_norm", [node("InstanceNormalization", ["a", "w", "z"], ["b"], epsilon=1e-12)], {"a": IMAGE},
             [("b", narrow(normal(IMAGE, (2, 3), 1e-12)))], {"w": ones(6), "z": 0 * ones(6)}),
    *at_each("group_norm", [node("GroupNormalization", ["a", "w", "z"], ["b"], epsilon=1e-12, num_groups=3)],
             {"a": IMAGE}, [("b", torch64(F.group_norm, IMAGE, 3, eps=1e-12))], {"w": ones(6), "z": 0 * ones(6)},
             opset=21),
    *at_each("reduce_l2", [*THROUGH, node("ReduceL2", ["x"], ["n"], axes=[-1]), node("Div", ["x", "n"], ["d"]),
                           node("MatMul", ["d", "eye"], ["b"])], {"a": PLUS_MINUS},
             [("b", torch64(F.normalize, PLUS_MINUS, dim=-1))], {"eye": EYE}, precisions=("bf16", "f16")),
    *at_each("reduce_sum_square", [node("ReduceSumSquare", ["a"], ["b"], axes=[-1])], {"a": PLUS_MINUS},
             [("b", narrow((wide(PLUS_MINUS)**2).sum(-1, keepdims=True)))]),
    *at_each("reduce_sum", [node("ReduceSum", ["a"], ["s"]), node("Div", ["a", "s"], ["b"])],
             {"a": np.abs(PLUS_MINUS) * 100}, [("b", narrow(wide(np.abs(PLUS_MINUS)) / wide(np.abs(PLUS_MINUS)).sum()))]),
    *at_each("lp_normalization", [node("LpNormalization", ["a"], ["b"], axis=-1, p=2)], {"a": PLUS_MINUS},
             [("b", torch64(F.normalize, PLUS_MINUS, dim=-1))]),
    *at_each("lrn", [node("LRN", ["a"], ["b"], size=3, alpha=1e-4, beta=0.75, bias=1.0)], {"a": IMAGE},
             [("b", torch64(F.local_response_norm, IMAGE, 3))]),
    *at_each("standard_deviation",
             [*THROUGH, node("ReduceMean", ["x"], ["m"], axes=[-1]), node("Mul", ["x", "x"], ["s"]),
              node("ReduceMean", ["s"], ["ms"], axes=[-1]), node("Mul", ["m", "m"], ["mm"]),
              node("Sub", ["ms", "mm"], ["v"]), node("Sqrt", ["v"], ["b"])], {"a": PLUS_MINUS},
             [("b", narrow(wide(PLUS_MINUS).std(-1, keepdims=True)))], {"eye": EYE}, precisions=("bf16", "f16")),
]

HALVES = [
    Case("rms_norm_of_halves", [node("RMSNormalization", ["a", "w"], ["b"], epsilon=1e-9)], {"a": HALF},
         [("b", (rms(HALF) * WEIGHTS.astype(np.float16)).astype(np.float16))], {"w": WEIGHTS.astype(np.float16)},
         opset=23, flags=("--rtol", "1e-2")),
    Case("layer_norm_of_halves_with_statistics",
         [node("LayerNormalization", ["a", "w"], ["b", "mean", "deviation"], epsilon=1e-6, stash_type=1)],
         {"a": HALF}, [("b", normal(HALF, -1, 1e-6).astype(np.float16)),
                       ("mean", narrow(wide(HALF).mean(-1, keepdims=True))),
                       ("deviation", narrow(1 / np.sqrt(wide(HALF).var(-1, keepdims=True) + 1e-6)))],
         {"w": np.ones(32, np.float16)}, flags=("--rtol", "1e-3")),
    Case("mean_variance_of_halves", [node("MeanVarianceNormalization", ["a"], ["b"], axes=[1])], {"a": HALF},
         [("b", normal(HALF, 1).astype(np.float16))], flags=("--rtol", "1e-2")),
    Case("lp_normalization_of_halves", [node("LpNormalization", ["a"], ["b"], axis=-1, p=2)], {"a": HALF},
         [("b", (wide(HALF) / np.sqrt((wide(HALF)**2).sum(-1, keepdims=True))).astype(np.float16))],
         flags=("--rtol", "1e-2")),
    Case("reduce_l2_of_halves", [node("ReduceL2", ["a"], ["b"], axes=[-1])], {"a": HALF},
         [("b", np.sqrt((wide(HALF)**2).sum(-1, keepdims=True)).astype(np.float16))], flags=("--rtol", "1e-2")),
    Case("unknown_stash_type", [node("LayerNormalization", ["a", "w"], ["b"], stash_type=7)], {"a": PLUS_MINUS},
         [("b", PLUS_MINUS)], {"w": WEIGHTS}, refusal="stash_type 7", table_lines=3),
]

HEADS = np.full((1, 2, 6, 128), 25, np.float32)
VALUES = noise(1, 2, 6, 128)
SCALE = f32(128**-0.25)
ATTENTION = [node("Mul", ["q", "s"], ["qs"]), node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
             node("Mul", ["kt", "s"], ["ks"]), node("MatMul", ["qs", "ks"], ["p"]), node("Softmax", ["p"], ["y"]),
             node("MatMul", ["y", "v"], ["b"])]
ROWS = f32([[0.5, 1, -2, 3], [1, -3, 2, 0.25], [4, 2, 1, -1]])
MASKED = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]], bool)  # The row in the middle is masked as a whole.
FILLED = wide(np.where(MASKED, -1e9, ROWS))
POWERS = np.exp(FILLED - FILLED.max(-1, keepdims=True))
SOFTMAX = narrow(POWERS / POWERS.sum(-1, keepdims=True))
SQUARE = np.eye(4, dtype=np.float32)
SCORES = [node("MatMul", ["a", "eye"], ["x"])]

MASKS = [
    *at_each("scale_before_the_product", ATTENTION, {"q": HEADS, "k": HEADS, "v": VALUES},
             [("b", narrow(np.broadcast_to(wide(VALUES).mean(2, keepdims=True), VALUES.shape)))], {"s": SCALE}),
    *at_each("constant_mask", [*SCORES, node("Add", ["x", "m"], ["s"]), node("Softmax", ["s"], ["b"])], {"a": ROWS},
             [("b", SOFTMAX)], {"eye": SQUARE, "m": np.where(MASKED, LOWEST, 0).astype(np.float32)}),
    *at_each("mask_as_input", [*SCORES, node("Add", ["x", "m"], ["s"]), node("Softmax", ["s"], ["b"])],
             {"a": ROWS, "m": np.where(MASKED, LOWEST, 0).astype(np.float32)}, [("b", SOFTMAX)], {"eye": SQUARE}),
    *at_each("mask_by_where", [*SCORES, node("Where", ["c", "low", "x"], ["s"]), node("Softmax", ["s"], ["p"]),
                               node("MatMul", ["p", "eye"], ["b"])],
             {"a": ROWS, "c": MASKED}, [("b", SOFTMAX)], {"eye": SQUARE, "low": f32(LOWEST)}),
    *at_each("mask_made_of_integers",
             [*SCORES, node("Cast", ["c"], ["f"], to=1), node("Mul", ["f", "low"], ["m"]),
              node("Add", ["x", "m"], ["s"]), node("Softmax", ["s"], ["p"]), node("MatMul", ["p", "eye"], ["b"])],
             {"a": ROWS, "c": MASKED.astype(np.int64)}, [("b", SOFTMAX)], {"eye": SQUARE, "low": f32(LOWEST)}),
    *at_each("mask_of_minus_1e9_before_the_largest",
             [*SCORES, node("Where", ["c", "low", "x"], ["s"]), node("ReduceMax", ["s"], ["m"], axes=[-1]),
              node("Sub", ["s", "m"], ["d"]), node("Exp", ["d"], ["b"])], {"a": ROWS, "c": MASKED},
             [("b", narrow(POWERS))], {"eye": SQUARE, "low": f32(-1e9)}),
]

# The sum is 69360, which is neither a bf16 nor an f16 number.
LEFT, RIGHT = np.full((1, 2, 5, 5), 255, np.uint8), np.zeros((1, 2, 5, 5), np.int8)
RIGHT.reshape(-1)[:6] = [127, 127, 19, -1, 0, 0]
CONV_SUM = int((LEFT.astype(np.int64) * RIGHT).sum())
A8 = np.random.RandomState(1).randint(0, 256, (6, 40)).astype(np.uint8)
B8 = np.random.RandomState(2).randint(-128, 128, (40, 8)).astype(np.int8)
PRODUCT = (A8.astype(np.int64) - 7) @ (B8.astype(np.int64) - 3)
QUANTUM = f32(0.0173)


def requantised(sums, scale, zero):
    """In float32 as the standard says, one rounding a step."""
    steps = np.rint(sums.astype(np.float32) * np.float32(scale))
    return np.clip(steps + zero, 0, 255).astype(np.uint8)


def linear_product(right, scales):
    """QLinearMatMul with its right operand and scales as constants or inputs."""
    inputs = {"a": A8, **({} if right else {"b8": B8}), **({} if scales else {"sa": f32(0.01), "sb": QUANTUM, "sy": f32(0.9)})}
    constants = {"za": np.uint8(7), "zb": np.int8(3), "zy": np.uint8(120), **({"b8": B8} if right else {}),
                 **({"sa": f32(0.01), "sb": QUANTUM, "sy": f32(0.9)} if scales else {})}
    scale = np.float32(0.01) * QUANTUM / np.float32(0.9)
    return at_each(f"qlinear_matmul_of_{'a_constant' if right else 'inputs'}{'' if scales else '_and_scales'}",
                   [node("QLinearMatMul", ["a", "sa", "za", "b8", "sb", "zb", "sy", "zy"], ["y"])], inputs,
                   [("y", requantised(PRODUCT, scale, 120))], constants, EXACT, ("f32", *NARROW))


X8 = np.random.RandomState(3).randint(0, 256, (1, 3, 6, 6)).astype(np.uint8)
W8 = np.random.RandomState(4).randint(-128, 128, (4, 3, 3, 3)).astype(np.int8)
CONV = F.conv2d(torch.tensor(wide(X8) - 100), torch.tensor(wide(W8) - 2)).numpy().astype(np.int64)
DEPTHWISE = F.conv2d(torch.tensor(wide(X8) - 100), torch.tensor(wide(W8[:3, :1]) - 2), groups=3).numpy().astype(np.int64)
STEPS = 3 * noise(40) + np.float32(0.3)
STEP = (STEPS.max() - STEPS.min()) / np.float32(255)
ZERO = np.rint(-STEPS.min() / STEP)
CODES = np.clip(np.rint(STEPS / STEP) + ZERO, 0, 255).astype(np.uint8)
CODES16 = np.array([1, 40001, 65535, 257], np.uint16)

INTEGERS = [
    *at_each("conv_integer", [node("ConvInteger", ["a", "w"], ["b"])], {"a": LEFT},
             [("b", np.full((1, 1, 1, 1), CONV_SUM, np.int32))], {"w": RIGHT}, EXACT, ("f32", *NARROW)),
    *at_each("conv_integer_with_zero_points", [node("ConvInteger", ["a", "w", "za", "zw"], ["b"])], {"a": X8},
             [("b", CONV.astype(np.int32))], {"w": W8, "za": np.uint8(100), "zw": np.int8(2)}, EXACT, ("f32", *NARROW)),
    *at_each("depthwise_conv_integer", [node("ConvInteger", ["a", "w", "za", "zw"], ["b"], group=3)], {"a": X8},
             [("b", DEPTHWISE.astype(np.int32))],
             {"w": np.ascontiguousarray(W8[:3, :1]), "za": np.uint8(100), "zw": np.int8(2)}, EXACT, ("f32", *NARROW)),
    *at_each("matmul_integer", [node("MatMulInteger", ["a", "b8", "za", "zb"], ["b"])], {"a": A8, "b8": B8},
             [("b", PRODUCT.astype(np.int32))], {"za": np.uint8(7), "zb": np.int8(3)}, EXACT, ("f32", *NARROW)),
    *linear_product(True, True), *linear_product(False, True), *linear_product(False, False),
    *at_each("qlinear_conv",
             [node("QLinearConv", ["a", "sa", "za", "w", "sw", "zw", "sy", "zy"], ["y"])], {"a": X8},
             [("y", requantised(CONV, np.float32(0.01) * QUANTUM / np.float32(2.1), 90))],
             {"w": W8, "sa": f32(0.01), "za": np.uint8(100), "sw": QUANTUM, "zw": np.int8(2), "sy": f32(2.1),
              "zy": np.uint8(90)}, EXACT, ("f32", *NARROW)),
    *at_each("dynamic_quantise", [node("DynamicQuantizeLinear", ["a"], ["b", "s", "z"]),
                                  node("DequantizeLinear", ["b", "s", "z"], ["d"])], {"a": STEPS},
             [("b", CODES), ("z", np.array(ZERO, np.uint8)), ("s", STEP), ("d", narrow((wide(CODES) - ZERO) * STEP))], {},
             ("--rtol", "1e-5", "--atol", "1e-6"), ("f32", *NARROW)),
    *at_each("dequantise_16_bits", [node("DequantizeLinear", ["a", "s", "z"], ["d"]), node("Relu", ["d"], ["b"])],
             {"a": CODES16, "s": f32(0.125)},
             [("b", narrow(wide(CODES16) * 0.125))], {"z": np.uint16(0)}, ("--rtol", "0.004", "--atol", "0"),
             ("f32", "f16", "bf16"), opset=21),
    *at_each("quantise_to_16_bits",
             [node("Relu", ["a"], ["r"]), node("Mul", ["r", "k"], ["q"]), node("Round", ["q"], ["n"]),
              node("Cast", ["n"], ["b"], to=5)], {"a": f32(1.5, 3.25, 0.75, 100)},
             [("b", np.array([450, 976, 225, 30025], np.int16))], {"k": f32(300.25)}, EXACT, ("f16", "bf16")),
]

PEAKS = f32([[0, 1, -2, 4]])
NEAR_0 = np.ascontiguousarray(noise(8, 4, 1, 1) * np.float32(0.5))
SPREAD = f32(1e-10, 1e-10, 1, 1e-9, 4e-10, 1, 2, 1)

CONSTANTS = [
    *at_each("tiny_constant_keeps_from_0", [*SCORES, node("Abs", ["x"], ["n"]), node("Add", ["n", "e"], ["d"]),
                                            node("Div", ["x", "d"], ["y"]), node("MatMul", ["y", "eye"], ["b"])],
             {"a": PEAKS}, [("b", np.sign(PEAKS))], {"eye": SQUARE, "e": f32(1e-9)}, precisions=("f16", "bf16")),
    *at_each("factor_beyond_f16", [*SCORES, node("Mul", ["x", "e"], ["y"]), node("Mul", ["y", "h"], ["z"]),
                                   node("MatMul", ["z", "eye"], ["b"])], {"a": PEAKS / 1024},
             [("b", PEAKS * np.float32(2e6 / 1024 * 0.125))], {"eye": SQUARE, "e": f32(2e6), "h": f32(0.125)},
             precisions=("f16", "bf16")),
    *at_each("batch_norm_that_magnifies",
             [node("Conv", ["a", "w"], ["c"]), node("BatchNormalization", ["c", "g", "z", "z", "v"], ["n"], epsilon=0.0),
              node("Relu", ["n"], ["b"])], {"a": narrow(noise(1, 4, 3, 3) / 4096)},
             [("b", narrow(F.relu(F.conv2d(torch.tensor(wide(noise(1, 4, 3, 3) / 4096)), torch.tensor(wide(NEAR_0))) /
                                  torch.tensor(np.sqrt(wide(SPREAD))).reshape(1, 8, 1, 1)).numpy()))],
             {"w": NEAR_0, "g": ones(8), "z": 0 * ones(8), "v": SPREAD}, precisions=("f16", "bf16")),
]

SIGNAL, TAPS = noise(4, 8, 33), np.ascontiguousarray(noise(4, 8, 3))
FILTERED = F.conv1d(torch.tensor(wide(SIGNAL)), torch.tensor(wide(TAPS)))

# The model's own rounding, in f16 and in bf16: ties, beyond the range of f16, below it.
TO_ROUND = f32([[65519, 65520, 1.00048828125, 3e-8], [1.00390625, 1.01171875, -1.01171875, 0]])
ROUNDED = {to: torch.tensor(TO_ROUND).to(half).float().numpy() for to, half in ((10, torch.half), (16, torch.bfloat16))}
ROUNDINGS = [case for to, rounded in ROUNDED.items() for case in (
    *at_each(f"rounding_of_an_input_to_{to}", [node("Cast", ["a"], ["h"], to=to), node("Cast", ["h"], ["b"], to=1)],
             {"a": TO_ROUND}, [("b", rounded)], flags=EXACT),
    *at_each(f"rounding_beside_another_reader_to_{to}",
             [node("Cast", ["a"], ["h"], to=to), node("Cast", ["h"], ["b"], to=1), node("Relu", ["a"], ["c"])],
             {"a": TO_ROUND}, [("b", rounded), ("c", np.maximum(TO_ROUND, 0))], flags=EXACT),
    *at_each(f"rounding_kept_wide_to_{to}", [node("Cast", ["a"], ["h"], to=to), node("Cast", ["h"], ["b"], to=1)],
             {"a": TO_ROUND}, [("b", rounded)], flags=(*EXACT, "--keep-f32", "cast"), precisions=("bf16", "f16")),
    *at_each(f"rounding_before_a_product_to_{to}",
             [node("Cast", ["a"], ["h"], to=to), node("Cast", ["h"], ["b"], to=1), node("MatMul", ["b", "eye"], ["c"])],
             {"a": TO_ROUND[1:]}, [("b", rounded[1:]), ("c", rounded[1:])], {"eye": SQUARE}, flags=("--rtol", "0.01"),
             precisions=("bf16", "f16")))]

OTHERS = [
    # Parts of a concatenation whose parts are concatenations, of 2 bytes an element.
    *at_each("reflected_behind_a_convolution",
             [node("Conv", ["a", "w"], ["c"]), node("Pad", ["c", "p"], ["b"], mode="reflect")], {"a": SIGNAL},
             [("b", narrow(np.pad(FILTERED.numpy(), ((1, 1), (0, 1), (0, 1)), mode="reflect")))],
             {"w": TAPS, "p": i64(1, 0, 0, 1, 1, 1)}),
    Case("product_of_one_number_at_fp8", [node("Reshape", ["a", "s"], ["m"]), node("MatMul", ["m", "w"], ["b"])],
         {"a": f32(3)}, [("b", f32([[6, -12]]))], {"s": i64(1, 1), "w": f32([[2, -4]])}, flags=("--precision", "fp8")),
]

CASES = STATISTICS + HALVES + MASKS + INTEGERS + CONSTANTS + ROUNDINGS + OTHERS
