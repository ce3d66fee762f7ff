# SPDX-License-Identifier: Apache-2.0
"""The functions that upstream_ops.py compares: text, inputs, and where upstream cannot lower them a reference in numpy."""
import re
from dataclasses import dataclass, field

import numpy as np

CASES = {}
RANDOM = np.random.default_rng(7)


@dataclass
class Case:
    text: str
    inputs: list
    results: list
    reference: object = None
    tolerance: float = 1e-5
    both: bool = False


def floats(*shape, low=-2.0, high=2.0):
    return RANDOM.uniform(low, high, shape).astype(np.float32)


def ints(*shape, kind=np.int32, low=-100, high=100):
    return RANDOM.integers(low, high, shape).astype(kind)


def bools(*shape):
    return RANDOM.integers(0, 2, shape).astype(np.bool_)


NAMES = {np.float32: "f32", np.int32: "i32", np.int8: "i8", np.int16: "i16", np.bool_: "i1", np.int64: "i64"}


def typed(array):
    return "tensor<" + "".join(f"{d}x" for d in array.shape) + NAMES[array.dtype.type] + ">"


def case(name, body, inputs, results, **more):
    """`body` uses %0, %1, ... as inputs (with types $0, $1, ...) and ends with %y (or several after "return")."""
    results = [results] if isinstance(results, str) else results
    for i, array in enumerate(inputs):
        body = re.sub(rf"\${i}\b", typed(array), body)
    for i, result in enumerate(results):
        body = re.sub(rf"\$r{i}\b", result, body)
    arguments = ", ".join(f"%arg{i}: {typed(a)}" for i, a in enumerate(inputs))
    for i in range(len(inputs)):
        body = re.sub(rf"%{i}\b", f"%arg{i}", body)
    maps, body = (body.split("---", 1) + [""])[:2] if "---" in body else ("", body)
    returned = ", ".join("%y" if len(results) == 1 else f"%y#{i}" for i in range(len(results)))
    text = (f"{maps}\nmodule {{\nfunc.func @main({arguments}) -> ({', '.join(results)}) {{\n{body}\n"
            f"return {returned} : {', '.join(results)}\n}}\n}}\n")
    if maps:
        text = text.strip() + "\n"
    CASES[name] = Case(text, inputs, results, **more)


def shape(name, *sizes):
    return f"%{name} = tosa.const_shape {{values = dense<[{', '.join(map(str, sizes))}]> : tensor<{len(sizes)}xindex>}} : () -> !tosa.shape<{len(sizes)}>\n"


def const(name, value, kind="f32", n=1):
    return f'%{name} = "tosa.const"() {{values = dense<{value}> : tensor<{n}x{kind}>}} : () -> tensor<{n}x{kind}>\n'


# ---- tosa: elementwise -------------------------------------------------------------------------------
def erf(x):
    from math import erf as one
    return np.vectorize(one)(x.astype(np.float64))


x = floats(3, 5)
for op in "abs ceil cos exp floor sin tanh sigmoid erf".split():
    case(f"tosa_{op}", f"%y = tosa.{op} %0 : ($0) -> $0", [x], typed(x))
positive = floats(3, 5, low=0.1)
for op in "log reciprocal rsqrt".split():
    case(f"tosa_{op}", f"%y = tosa.{op} %0 : ($0) -> $0", [positive], typed(x))
for op in "add sub maximum minimum".split():
    case(f"tosa_{op}", f"%y = tosa.{op} %0, %1 : ($0, $1) -> $0", [x, floats(3, 1)], typed(x))
case("tosa_pow", "%y = tosa.pow %0, %1 : ($0, $1) -> $0", [positive, floats(3, 5)], typed(x))
for op in "add sub maximum minimum bitwise_and bitwise_or bitwise_xor".split():
    a, b = ints(4, 6), ints(1, 6)
    case(f"tosa_{op}_i32", f"%y = tosa.{op} %0, %1 : ($0, $1) -> $0", [a, b], typed(a))
case("tosa_intdiv", "%y = tosa.intdiv %0, %1 : ($0, $1) -> $0", [ints(4, 6), ints(4, 6, low=1)], "tensor<4x6xi32>")
case("tosa_bitwise_not", "%y = tosa.bitwise_not %0 : ($0) -> $0", [ints(4, 6)], "tensor<4x6xi32>")
case("tosa_clz", "%y = tosa.clz %0 : ($0) -> $0", [np.array([0, 1, 2, 255, 65536, -1, 2**31 - 1], np.int32)], "tensor<7xi32>")
shifts = ints(4, 6, low=0, high=8)
for op in "logical_left_shift logical_right_shift".split():
    case(f"tosa_{op}", f"%y = tosa.{op} %0, %1 : ($0, $1) -> $0", [ints(4, 6), shifts], "tensor<4x6xi32>")
for rounds in "false", "true":
    case(f"tosa_arithmetic_right_shift_{rounds}", f"%y = tosa.arithmetic_right_shift %0, %1 {{round = {rounds}}} : ($0, $1) -> $0",
         [ints(4, 6), ints(4, 6, low=1, high=8)], "tensor<4x6xi32>")
for op in "logical_and logical_or logical_xor".split():
    case(f"tosa_{op}", f"%y = tosa.{op} %0, %1 : ($0, $1) -> $0", [bools(4, 6), bools(4, 6)], "tensor<4x6xi1>")
case("tosa_logical_not", "%y = tosa.logical_not %0 : ($0) -> $0", [bools(4, 6)], "tensor<4x6xi1>")
for op in "equal greater greater_equal".split():
    case(f"tosa_{op}", f"%y = tosa.{op} %0, %1 : ($0, $1) -> tensor<4x6xi1>", [ints(4, 6, high=0, low=-3), ints(4, 6, high=0, low=-3)], "tensor<4x6xi1>")
case("tosa_select", "%y = tosa.select %0, %1, %2 : ($0, $1, $2) -> $1", [bools(4, 1), floats(4, 6), floats(4, 6)], "tensor<4x6xf32>")
case("tosa_clamp", "%y = tosa.clamp %0 {min_val = -0.5 : f32, max_val = 1.0 : f32} : ($0) -> $0", [x], typed(x))
case("tosa_clamp_i8", "%y = tosa.clamp %0 {min_val = -5 : i8, max_val = 10 : i8} : ($0) -> $0", [ints(4, 6, kind=np.int8)], "tensor<4x6xi8>")
case("tosa_negate", const("z", 0.0) + "%y = tosa.negate %0, %z, %z : ($0, tensor<1xf32>, tensor<1xf32>) -> $0", [x], typed(x))
case("tosa_negate_i8", const("z", 3, "i8") + const("o", -4, "i8") + "%y = tosa.negate %0, %z, %o : ($0, tensor<1xi8>, tensor<1xi8>) -> $0",
     [ints(4, 6, kind=np.int8, low=-128, high=127)], "tensor<4x6xi8>")
case("tosa_mul", const("s", 0, "i8") + "%y = tosa.mul %0, %1, %s : ($0, $1, tensor<1xi8>) -> $0", [x, floats(1, 5)], typed(x))
case("tosa_mul_shift", const("s", 5, "i8") + "%y = tosa.mul %0, %1, %s : ($0, $1, tensor<1xi8>) -> $0",
     [ints(4, 6, low=-10**6, high=10**6), ints(4, 6, low=-10**3, high=10**3)], "tensor<4x6xi32>")
case("tosa_cast_int", "%y = tosa.cast %0 : ($0) -> tensor<8xi32>",
     [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, 7.2], np.float32)], "tensor<8xi32>")
case("tosa_cast_float", "%y = tosa.cast %0 : ($0) -> tensor<4x6xf32>", [ints(4, 6)], "tensor<4x6xf32>")
case("tosa_identity", "%y = tosa.identity %0 : ($0) -> $0", [x], typed(x))
case("tosa_table", "%y = tosa.table %0, %1 : ($0, $1) -> $0", [ints(4, 6, kind=np.int8, low=-128, high=127), ints(256, kind=np.int8)], "tensor<4x6xi8>")
case("tosa_table_i16", "%y = tosa.table %0, %1 : ($0, $1) -> tensor<4x6xi32>",
     [ints(4, 6, kind=np.int16, low=-32768, high=32767), ints(513, kind=np.int16, low=-30000, high=30000)], "tensor<4x6xi32>")
RESCALE = (const("m", "[1073741824, 1518500250]", "i32", 2) + const("s", "[33, 38]", "i8", 2) + const("i", 3, "i8") + const("o", -2, "i8") +
           "%y = tosa.rescale %0, %m, %s, %i, %o {scale32 = true, rounding_mode = MODE, per_channel = true, input_unsigned = false, "
           "output_unsigned = false} : ($0, tensor<2xi32>, tensor<2xi8>, tensor<1xi8>, tensor<1xi8>) -> $0")
for mode in "SINGLE_ROUND", "DOUBLE_ROUND":
    case(f"tosa_rescale_{mode.lower()}", RESCALE.replace("MODE", mode), [ints(9, 2, kind=np.int8, low=-128, high=127)], "tensor<9x2xi8>")

# ---- tosa: reductions, movement ----------------------------------------------------------------------
for op in "sum max min product".split():
    case(f"tosa_reduce_{op}", f"%y = tosa.reduce_{op} %0 {{axis = 1 : i32}} : ($0) -> tensor<3x1xf32>", [x], "tensor<3x1xf32>")
case("tosa_reduce_sum_i32", "%y = tosa.reduce_sum %0 {axis = 0 : i32} : ($0) -> tensor<1x6xi32>", [ints(40, 6, low=-10**7, high=10**7)], "tensor<1x6xi32>")
for op in "all any".split():
    case(f"tosa_reduce_{op}", f"%y = tosa.reduce_{op} %0 {{axis = 1 : i32}} : ($0) -> tensor<9x1xi1>", [bools(9, 2)], "tensor<9x1xi1>")
case("tosa_argmax", "%y = tosa.argmax %0 {axis = 1 : i32} : ($0) -> tensor<3xi32>", [x], "tensor<3xi32>")
case("tosa_concat", "%y = tosa.concat %0, %1 {axis = 1 : i32} : ($0, $1) -> tensor<3x9xf32>", [x, floats(3, 4)], "tensor<3x9xf32>")
case("tosa_pad", shape("p", 1, 0, 2, 3) + const("v", 1.5) + "%y = tosa.pad %0, %p, %v : ($0, !tosa.shape<4>, tensor<1xf32>) -> tensor<4x10xf32>", [x], "tensor<4x10xf32>")
case("tosa_reshape", shape("s", 5, 3) + "%y = tosa.reshape %0, %s : ($0, !tosa.shape<2>) -> tensor<5x3xf32>", [x], "tensor<5x3xf32>")
case("tosa_reverse", "%y = tosa.reverse %0 {axis = 1 : i32} : ($0) -> $0", [x], typed(x))
case("tosa_slice", shape("b", 1, 2) + shape("s", 2, 3) + "%y = tosa.slice %0, %b, %s : ($0, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3xf32>", [x], "tensor<2x3xf32>")
case("tosa_tile", shape("s", 2, 3) + "%y = tosa.tile %0, %s : ($0, !tosa.shape<2>) -> tensor<6x15xf32>", [x], "tensor<6x15xf32>")
case("tosa_transpose", "%y = tosa.transpose %0 {perms = array<i32: 2, 0, 1>} : ($0) -> tensor<4x2x3xf32>", [floats(2, 3, 4)], "tensor<4x2x3xf32>")
case("tosa_gather", "%y = tosa.gather %0, %1 : ($0, $1) -> tensor<2x4x3xf32>", [floats(2, 5, 3), ints(2, 4, low=0, high=5)], "tensor<2x4x3xf32>")
unique = np.stack([RANDOM.permutation(6)[:4] for _ in range(2)]).astype(np.int32)
case("tosa_scatter", "%y = tosa.scatter %0, %1, %2 : ($0, $1, $2) -> $0", [floats(2, 6, 3), unique, floats(2, 4, 3)], "tensor<2x6x3xf32>")

# ---- tosa: products and windows ----------------------------------------------------------------------
ZEROS = const("z", 0.0)
case("tosa_matmul", ZEROS + "%y = tosa.matmul %0, %1, %z, %z : ($0, $1, tensor<1xf32>, tensor<1xf32>) -> tensor<2x3x5xf32>", [floats(2, 3, 4), floats(2, 4, 5)], "tensor<2x3x5xf32>")
case("tosa_matmul_i8", const("a", 3, "i8") + const("b", -7, "i8") + "%y = tosa.matmul %0, %1, %a, %b : ($0, $1, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3x5xi32>",
     [ints(2, 3, 700, kind=np.int8, low=-128, high=127), ints(2, 700, 5, kind=np.int8, low=-128, high=127)], "tensor<2x3x5xi32>")
F1 = "tensor<1xf32>"
case("tosa_conv2d", ZEROS + f"%y = tosa.conv2d %0, %1, %2, %z, %z {{acc_type = f32, pad = array<i64: 1, 0, 2, 1>, stride = array<i64: 2, 1>, dilation = array<i64: 1, 2>}} : ($0, $1, $2, {F1}, {F1}) -> tensor<2x4x7x5xf32>",
     [floats(2, 8, 8, 3), floats(5, 3, 3, 3), floats(5)], "tensor<2x4x7x5xf32>")
case("tosa_conv2d_i8", const("a", 3, "i8") + const("b", 0, "i8") + "%y = tosa.conv2d %0, %1, %2, %a, %b {acc_type = i32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : ($0, $1, $2, tensor<1xi8>, tensor<1xi8>) -> tensor<1x6x6x4xi32>",
     [ints(1, 6, 6, 40, kind=np.int8), ints(4, 3, 3, 40, kind=np.int8), ints(4)], "tensor<1x6x6x4xi32>")
case("tosa_depthwise_conv2d", ZEROS + f"%y = tosa.depthwise_conv2d %0, %1, %2, %z, %z {{acc_type = f32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}} : ($0, $1, $2, {F1}, {F1}) -> tensor<1x6x6x6xf32>",
     [floats(1, 6, 6, 3), floats(3, 3, 3, 2), floats(6)], "tensor<1x6x6x6xf32>")
case("tosa_transpose_conv2d", ZEROS + f"%y = tosa.transpose_conv2d %0, %1, %2, %z, %z {{acc_type = f32, out_pad = array<i64: -1, 0, 1, 0>, stride = array<i64: 2, 2>}} : ($0, $1, $2, {F1}, {F1}) -> tensor<1x8x10x2xf32>",
     [floats(1, 4, 4, 3), floats(2, 3, 3, 3), floats(2)], "tensor<1x8x10x2xf32>")
case("tosa_conv3d", ZEROS + f"%y = tosa.conv3d %0, %1, %2, %z, %z {{acc_type = f32, pad = array<i64: 1, 1, 1, 1, 1, 1>, stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>}} : ($0, $1, $2, {F1}, {F1}) -> tensor<1x4x5x6x2xf32>",
     [floats(1, 4, 5, 6, 3), floats(2, 3, 3, 3, 3), floats(2)], "tensor<1x4x5x6x2xf32>")
case("tosa_max_pool2d", "%y = tosa.max_pool2d %0 {kernel = array<i64: 3, 2>, stride = array<i64: 2, 1>, pad = array<i64: 1, 0, 1, 0>} : ($0) -> tensor<2x4x8x3xf32>",
     [floats(2, 8, 8, 3)], "tensor<2x4x8x3xf32>")
case("tosa_avg_pool2d", ZEROS + f"%y = tosa.avg_pool2d %0, %z, %z {{acc_type = f32, kernel = array<i64: 3, 2>, stride = array<i64: 2, 1>, pad = array<i64: 1, 0, 1, 0>}} : ($0, {F1}, {F1}) -> tensor<2x4x8x3xf32>",
     [floats(2, 8, 8, 3)], "tensor<2x4x8x3xf32>")
for mode in "NEAREST_NEIGHBOR", "BILINEAR":
    case(f"tosa_resize_{mode.lower()}", shape("c", 4, 2, 6, 3) + shape("o", -1, 0) + shape("b", 1, 3) +
         f"%y = tosa.resize %0, %c, %o, %b {{mode = {mode}}} : ($0, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x8x10x3xf32>",
         [floats(1, 4, 5, 3)], "tensor<1x8x10x3xf32>")
case("tosa_fft2d", "%y:2 = tosa.fft2d %0, %1 {inverse = false} : ($0, $1) -> ($0, $0)", [floats(2, 4, 8), floats(2, 4, 8)], ["tensor<2x4x8xf32>"] * 2, tolerance=1e-4)
case("tosa_fft2d_inverse", "%y:2 = tosa.fft2d %0, %1 {inverse = true} : ($0, $1) -> ($0, $0)", [floats(2, 4, 8), floats(2, 4, 8)], ["tensor<2x4x8xf32>"] * 2, tolerance=1e-4)
case("tosa_rfft2d", "%y:2 = tosa.rfft2d %0 : ($0) -> (tensor<2x4x5xf32>, tensor<2x4x5xf32>)", [floats(2, 4, 8)], ["tensor<2x4x5xf32>"] * 2, tolerance=1e-4)

# ---- linalg ------------------------------------------------------------------------------------------
def filled(to, value="0.0", kind="f32"):
    return f"%c = arith.constant {value} : {kind}\n%e = tensor.empty() : {to}\n%f = linalg.fill ins(%c : {kind}) outs(%e : {to}) -> {to}\n"


def linalg(name, op, inputs, result, init="0.0", attributes="", **more):
    names = ", ".join(f"%{i}" for i in range(len(inputs)))
    types = ", ".join(f"${i}" for i in range(len(inputs)))
    case(f"linalg_{name}", filled(result, init) + f"%y = linalg.{op} {attributes} ins({names} : {types}) outs(%f : $r0) -> $r0", inputs, result, **more)


linalg("matmul", "matmul", [floats(4, 6), floats(6, 5)], "tensor<4x5xf32>", init="1.5")
linalg("batch_matmul", "batch_matmul", [floats(2, 4, 6), floats(2, 6, 5)], "tensor<2x4x5xf32>")
linalg("matvec", "matvec", [floats(4, 6), floats(6)], "tensor<4xf32>")
linalg("vecmat", "vecmat", [floats(6), floats(6, 4)], "tensor<4xf32>")
linalg("dot", "dot", [floats(6), floats(6)], "tensor<f32>")
linalg("batch_matvec", "batch_matvec", [floats(2, 4, 6), floats(2, 6)], "tensor<2x4xf32>")
for op in "add sub mul div max min".split():
    linalg(op, op, [floats(3, 4), floats(3, 4, low=0.5)], "tensor<3x4xf32>")
for op in "exp abs ceil floor negf tanh square erf".split():
    linalg(op, op, [floats(3, 4)], "tensor<3x4xf32>")
for op in "log sqrt rsqrt reciprocal".split():
    linalg(op, op, [floats(3, 4, low=0.1)], "tensor<3x4xf32>")
STRIDES = "{strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}"
linalg("conv_2d_nhwc_hwcf", "conv_2d_nhwc_hwcf", [floats(1, 7, 7, 3), floats(3, 3, 3, 4)], "tensor<1x3x3x4xf32>", attributes=STRIDES)
linalg("conv_2d_nchw_fchw", "conv_2d_nchw_fchw", [floats(1, 3, 7, 7), floats(4, 3, 3, 3)], "tensor<1x4x3x3xf32>", attributes=STRIDES, init="0.5")
linalg("depthwise_conv_2d_nhwc_hwc", "depthwise_conv_2d_nhwc_hwc", [floats(1, 7, 7, 3), floats(3, 3, 3)], "tensor<1x3x3x3xf32>", attributes=STRIDES)
linalg("depthwise_conv_2d_nhwc_hwcm", "depthwise_conv_2d_nhwc_hwcm", [floats(1, 7, 7, 3), floats(3, 3, 3, 2)], "tensor<1x3x3x3x2xf32>", attributes=STRIDES)
linalg("conv_1d_nwc_wcf", "conv_1d_nwc_wcf", [floats(2, 9, 3), floats(3, 3, 4)], "tensor<2x7x4xf32>", attributes="{strides = dense<1> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}")
for op, init in ("sum", "0.0"), ("max", "0xFF800000"), ("min", "0x7F800000"):
    case(f"linalg_pooling_nhwc_{op}", filled("tensor<1x3x3x3xf32>", init) + "%w = tensor.empty() : tensor<2x2xf32>\n" +
         f"%y = linalg.pooling_nhwc_{op} {STRIDES} ins(%0, %w : $0, tensor<2x2xf32>) outs(%f : $r0) -> $r0", [floats(1, 7, 7, 3)], "tensor<1x3x3x3xf32>")
case("linalg_transpose", "%e = tensor.empty() : $r0\n%y = linalg.transpose ins(%0 : $0) outs(%e : $r0) permutation = [1, 2, 0]", [floats(2, 3, 4)], "tensor<3x4x2xf32>")
case("linalg_broadcast", "%e = tensor.empty() : $r0\n%y = linalg.broadcast ins(%0 : $0) outs(%e : $r0) dimensions = [1]", [floats(2, 4)], "tensor<2x3x4xf32>")
case("linalg_reduce", filled("tensor<2x4xf32>", "0.25") + "%y = linalg.reduce {arith.addf} ins(%0 : $0) outs(%f : $r0) dimensions = [1]", [floats(2, 3, 4)], "tensor<2x4xf32>")
case("linalg_map", "%e = tensor.empty() : $r0\n%y = linalg.map {arith.mulf} ins(%0, %1 : $0, $1) outs(%e : $r0)", [floats(2, 4), floats(2, 4)], "tensor<2x4xf32>")
case("linalg_softmax", "%e = tensor.empty() : $r0\n%y = linalg.softmax dimension(1) ins(%0 : $0) outs(%e : $r0) -> $r0", [floats(3, 7)], "tensor<3x7xf32>",
     reference=lambda a: np.exp(a - a.max(1, keepdims=True)) / np.exp(a - a.max(1, keepdims=True)).sum(1, keepdims=True))


def generic(name, maps, iterators, body, inputs, result, kind="f32", init="0.0", arguments=None, **more):
    names = ", ".join(f"%{i}" for i in range(len(inputs)))
    types = ", ".join(f"${i}" for i in range(len(inputs)))
    arguments = arguments or ", ".join([f"%a{i}: f32" for i in range(len(inputs))] + ["%o: f32"])
    case(f"linalg_generic_{name}", filled(result, init, kind) +
         f"%y = linalg.generic {{indexing_maps = [{', '.join(f'affine_map<{m}>' for m in maps)}], iterator_types = [{', '.join(chr(34) + i + chr(34) for i in iterators)}]}} "
         f"ins({names} : {types}) outs(%f : $r0) {{\n^bb0({arguments}):\n{body}\n}} -> $r0", inputs, result, **more)


P, R = "parallel", "reduction"
generic("gelu_bias", ["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i, j)"], [P, P],
        "%s = arith.addf %a0, %a1 : f32\n%h = arith.constant 0.70710678 : f32\n%k = arith.mulf %s, %h : f32\n%q = math.erf %k : f32\n"
        "%u = arith.constant 1.0 : f32\n%v = arith.addf %q, %u : f32\n%w = arith.mulf %s, %v : f32\nlinalg.yield %w : f32",
        [floats(3, 4), floats(4)], "tensor<3x4xf32>")
generic("transposed_select", ["(i, j) -> (j, i)", "(i, j) -> (i, j)"], [P, P],
        "%z = arith.constant 0.0 : f32\n%c1 = arith.cmpf ogt, %a0, %z : f32\n%i = linalg.index 1 : index\n%ii = arith.index_cast %i : index to i32\n"
        "%fi = arith.sitofp %ii : i32 to f32\n%s = arith.select %c1, %a0, %fi : f32\nlinalg.yield %s : f32", [floats(4, 3)], "tensor<3x4xf32>")
generic("contraction", ["(b, i, j, k) -> (k, b, i)", "(b, i, j, k) -> (j, b, k)", "(b, i, j, k) -> (i, b, j)"], [P, P, P, R],
        "%p = arith.mulf %a0, %a1 : f32\n%s = arith.addf %o, %p : f32\nlinalg.yield %s : f32", [floats(6, 2, 3), floats(4, 2, 6)], "tensor<3x2x4xf32>")
generic("int8_product", ["(i, j, k) -> (i, k)", "(i, j, k) -> (k, j)", "(i, j, k) -> (i, j)"], [P, P, R],
        "%x0 = arith.extsi %a0 : i8 to i32\n%x1 = arith.extsi %a1 : i8 to i32\n%p = arith.muli %x0, %x1 : i32\n%s = arith.addi %o, %p : i32\nlinalg.yield %s : i32",
        [ints(3, 3000, kind=np.int8, low=-128, high=127), ints(3000, 4, kind=np.int8, low=-128, high=127)], "tensor<3x4xi32>",
        kind="i32", init="5", arguments="%a0: i8, %a1: i8, %o: i32")
generic("sum_of_squares", ["(i, j) -> (i, j)", "(i, j) -> (i)"], [P, R],
        "%q = arith.mulf %a0, %a0 : f32\n%s = arith.addf %q, %o : f32\nlinalg.yield %s : f32", [floats(3, 9)], "tensor<3xf32>")
generic("max_of_products", ["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i)"], [P, R],
        "%q = arith.mulf %a0, %a1 : f32\n%s = arith.maximumf %q, %o : f32\nlinalg.yield %s : f32", [floats(3, 9), floats(9)], "tensor<3xf32>", init="0.5")

generic("less_products", ["(i, j) -> (i, j)", "(i, j) -> (j)", "(i, j) -> (i)"], [P, R],
        "%q = arith.mulf %a0, %a1 : f32\n%s = arith.subf %o, %q : f32\nlinalg.yield %s : f32", [floats(3, 9), floats(9)], "tensor<3xf32>", init="0.5")
generic("less_integers", ["(i, j) -> (i, j)", "(i, j) -> (i)"], [P, R],
        "%s = arith.subi %o, %a0 : i32\nlinalg.yield %s : i32", [ints(3, 9)], "tensor<3xi32>", kind="i32", init="0", arguments="%a0: i32, %o: i32")

# ---- tensor ------------------------------------------------------------------------------------------
case("tensor_shapes", "%c = tensor.collapse_shape %0 [[0, 1], [2]] : $0 into tensor<6x4xf32>\n"
     "%s = tensor.extract_slice %c[1, 0] [4, 2] [1, 2] : tensor<6x4xf32> to tensor<4x2xf32>\n"
     "%y = tensor.expand_shape %s [[0, 1], [2]] output_shape [2, 2, 2] : tensor<4x2xf32> into tensor<2x2x2xf32>", [floats(2, 3, 4)], "tensor<2x2x2xf32>")
case("tensor_insert_slice", "%y = tensor.insert_slice %1 into %0[1, 2] [2, 2] [1, 1] : $1 into $0", [floats(4, 5), floats(2, 2)], "tensor<4x5xf32>")
case("tensor_pad", "%c = arith.constant 0.5 : f32\n%y = tensor.pad %0 low[1, 0] high[0, 2] {\n^bb0(%i: index, %j: index):\ntensor.yield %c : f32\n} : $0 to tensor<4x6xf32>",
     [floats(3, 4)], "tensor<4x6xf32>")
case("arith_on_tensors", "%s = arith.mulf %0, %1 : $0\n%y = math.tanh %s : $0", [floats(3, 4), floats(3, 4)], "tensor<3x4xf32>")

# ---- NaN, unsigned numbers, other forms ----------------------------------------------------------------
holes = x.copy()
holes[0, 1], holes[2, 2] = np.nan, np.nan
for mode in "PROPAGATE", "IGNORE":
    for op in "maximum", "minimum":
        case(f"tosa_{op}_{mode.lower()}", f"%y = tosa.{op} %0, %1 {{nan_mode = {mode}}} : ($0, $1) -> $0", [holes, floats(3, 1)], typed(x))
    for op in "reduce_max", "reduce_min":
        case(f"tosa_{op}_{mode.lower()}", f"%y = tosa.{op} %0 {{axis = 1 : i32, nan_mode = {mode}}} : ($0) -> tensor<3x1xf32>", [holes], "tensor<3x1xf32>")
    case(f"tosa_clamp_{mode.lower()}", f"%y = tosa.clamp %0 {{min_val = -0.5 : f32, max_val = 1.0 : f32, nan_mode = {mode}}} : ($0) -> $0", [holes], typed(x))
case("tosa_argmax_i8", "%y = tosa.argmax %0 {axis = 0 : i32} : ($0) -> tensor<6xi32>", [ints(9, 6, kind=np.int8)], "tensor<6xi32>")
case("tosa_max_pool2d_i8", "%y = tosa.max_pool2d %0 {kernel = array<i64: 3, 3>, stride = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>} : ($0) -> $0",
     [ints(1, 6, 6, 2, kind=np.int8, low=-128, high=-50)], "tensor<1x6x6x2xi8>")
case("tosa_depthwise_conv2d_i8", const("a", -3, "i8") + const("b", 0, "i8") + "%y = tosa.depthwise_conv2d %0, %1, %2, %a, %b {acc_type = i32, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 2, 2>, dilation = array<i64: 1, 1>} : ($0, $1, $2, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x6xi32>",
     [ints(1, 7, 7, 3, kind=np.int8), ints(3, 3, 3, 2, kind=np.int8), ints(6)], "tensor<1x4x4x6xi32>")
case("tosa_transpose_conv2d_grows", ZEROS + f"%y = tosa.transpose_conv2d %0, %1, %2, %z, %z {{acc_type = f32, out_pad = array<i64: 1, 2, 0, 1>, stride = array<i64: 1, 2>}} : ($0, $1, $2, {F1}, {F1}) -> tensor<1x9x10x2xf32>",
     [floats(1, 4, 4, 3), floats(2, 3, 3, 3), floats(2)], "tensor<1x9x10x2xf32>")
case("tosa_resize_bilinear_i8", shape("c", 4, 2, 4, 2) + shape("o", 0, 0) + shape("b", 0, 0) +
     "%y = tosa.resize %0, %c, %o, %b {mode = BILINEAR} : ($0, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x7x9x3xi32>",
     [ints(1, 4, 5, 3, kind=np.int8)], "tensor<1x7x9x3xi32>")
case("tosa_slice_strange", shape("b", 0, 4) + shape("s", 3, 1) + "%y = tosa.slice %0, %b, %s : ($0, !tosa.shape<2>, !tosa.shape<2>) -> tensor<3x1xf32>", [x], "tensor<3x1xf32>")
case("tosa_cast_i8_bool", "%y = tosa.cast %0 : ($0) -> tensor<4x6xi1>", [ints(4, 6, kind=np.int8, low=-1, high=2)], "tensor<4x6xi1>")
case("tosa_chain", ZEROS + shape("s", 1, 3, 5) + "%a = tosa.reshape %0, %s : ($0, !tosa.shape<3>) -> tensor<1x3x5xf32>\n"
     "%m = tosa.matmul %a, %1, %z, %z : (tensor<1x3x5xf32>, $1, tensor<1xf32>, tensor<1xf32>) -> tensor<1x3x4xf32>\n"
     "%t = tosa.tanh %m : (tensor<1x3x4xf32>) -> tensor<1x3x4xf32>\n%y = tosa.reduce_sum %t {axis = 2 : i32} : (tensor<1x3x4xf32>) -> tensor<1x3x1xf32>",
     [x, floats(1, 5, 4)], "tensor<1x3x1xf32>")
for op, kind, init in ("addi", np.int32, "3"), ("muli", np.int32, "1"), ("maxsi", np.int32, "-50"), ("minsi", np.int32, "50"):
    low = -3 if op == "muli" else -100
    case(f"linalg_reduce_{op}", filled("tensor<4xi32>", init, "i32") + f"%y = linalg.reduce {{arith.{op}}} ins(%0 : $0) outs(%f : $r0) dimensions = [0]",
         [ints(5, 4, low=low, high=-low)], "tensor<4xi32>")
case("linalg_matmul_transposed", filled("tensor<4x5xf32>") + "%y = linalg.matmul indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [floats(6, 4), floats(6, 5)], "tensor<4x5xf32>")
case("linalg_contract", filled("tensor<5x4xf32>") + "%y = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (j, i)>] ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [floats(4, 6), floats(5, 6)], "tensor<5x4xf32>")
case("linalg_matmul_i8", filled("tensor<4x5xi32>", "0", "i32") + "%y = linalg.matmul ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [ints(4, 300, kind=np.int8, low=-128), ints(300, 5, kind=np.int8, low=-128)], "tensor<4x5xi32>")
case("linalg_mmt4d", filled("tensor<2x3x4x5xf32>") + "%y = linalg.mmt4d ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0", [floats(2, 6, 4, 2), floats(3, 6, 5, 2)], "tensor<2x3x4x5xf32>")
case("linalg_conv_1d_ncw_fcw", filled("tensor<2x4x7xf32>") + "%y = linalg.conv_1d_ncw_fcw {strides = dense<1> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>} ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [floats(2, 3, 9), floats(4, 3, 3)], "tensor<2x4x7xf32>")
case("linalg_conv_3d", filled("tensor<1x3x3x3x2xf32>") + "%y = linalg.conv_3d_ndhwc_dhwcf {strides = dense<1> : tensor<3xi64>, dilations = dense<1> : tensor<3xi64>} ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [floats(1, 5, 5, 5, 3), floats(3, 3, 3, 3, 2)], "tensor<1x3x3x3x2xf32>")
case("linalg_conv_2d_i8", filled("tensor<1x5x5x4xi32>", "7", "i32") + "%y = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [ints(1, 7, 7, 50, kind=np.int8, low=-128), ints(3, 3, 50, 4, kind=np.int8, low=-128)], "tensor<1x5x5x4xi32>")
case("linalg_depthwise_conv_2d_nchw_chw", filled("tensor<1x3x5x5xf32>") + "%y = linalg.depthwise_conv_2d_nchw_chw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%0, %1 : $0, $1) outs(%f : $r0) -> $r0",
     [floats(1, 3, 7, 7), floats(3, 3, 3)], "tensor<1x3x5x5xf32>")
case("linalg_pooling_nchw_max_i32", filled("tensor<1x3x6x6xi32>", "-100", "i32") + "%w = tensor.empty() : tensor<2x2xi32>\n%y = linalg.pooling_nchw_max {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>} ins(%0, %w : $0, tensor<2x2xi32>) outs(%f : $r0) -> $r0",
     [ints(1, 3, 7, 7)], "tensor<1x3x6x6xi32>")
INTEGERS = [ints(4, 6), ints(4, 6, low=1, high=7)]
for op in "divsi divui remsi remui shli shrsi shrui maxui minui xori".split():
    case(f"arith_{op}", f"%y = arith.{op} %0, %1 : $0", INTEGERS, "tensor<4x6xi32>")
# What has a result in arith: no division by zero, no shift by the width.
for op in "addi subi muli maxsi minsi maxui minui".split():
    case(f"arith_{op}_of_bools", f"%y = arith.{op} %0, %1 : $0", [bools(4, 6), bools(4, 6)], "tensor<4x6xi1>")
for predicate in "ult sle uge ne sgt".split():
    case(f"arith_cmpi_{predicate}_of_bools", f"%a = arith.cmpi slt, %0, %1 : $0\n  %b = arith.cmpi slt, %1, %0 : $0\n  %y = arith.cmpi {predicate}, %a, %b : tensor<4x6xi1>", [ints(4, 6, low=-3, high=3), ints(4, 6, low=-3, high=3)], "tensor<4x6xi1>")
    case(f"arith_cmpi_{predicate}", f"%y = arith.cmpi {predicate}, %0, %1 : $0", [ints(4, 6, low=-3, high=3), ints(4, 6, low=-3, high=3)], "tensor<4x6xi1>")
for predicate in "ueq one ult uno ord une ogt".split():
    case(f"arith_cmpf_{predicate}", f"%y = arith.cmpf {predicate}, %0, %1 : $0", [holes, np.where(np.arange(15).reshape(3, 5) % 3, x, 0).astype(np.float32)], "tensor<3x5xi1>")
case("arith_casts", "%a = arith.trunci %0 : $0 to tensor<4x6xi8>\n%b = arith.extui %a : tensor<4x6xi8> to tensor<4x6xi32>\n%c = arith.uitofp %b : tensor<4x6xi32> to tensor<4x6xf32>\n"
     "%d = arith.fptosi %c : tensor<4x6xf32> to tensor<4x6xi32>\n%y = arith.addi %d, %0 : $0", [ints(4, 6, low=-1000, high=1000)], "tensor<4x6xi32>")
for op in "absf atan cbrt exp2 expm1 log10 log1p log2 round roundeven trunc tan".split():
    case(f"math_{op}", f"%y = math.{op} %0 : $0", [positive if op.startswith("log") else x], typed(x))
case("math_powf_fma", "%a = math.powf %0, %1 : $0\n%y = math.fma %a, %1, %0 : $0", [positive, floats(3, 5)], typed(x))

# Control flow. Both branches, and loops of 0, 1 and several iterations.
for taken in (False, True):
    case(f"cond_if_{'then' if taken else 'else'}", """
  %y = tosa.cond_if %0 (%b1 = %1, %b2 = %2) : $0 ($1, $2) -> tensor<3x4xf32> {
  ^bb0(%b: $1, %c: $2):
    %s = tosa.add %b, %c : ($1, $2) -> tensor<3x4xf32>
    tosa.yield %s : tensor<3x4xf32>
  } else {
  ^bb0(%b: $1, %c: $2):
    %s = tosa.sub %b, %c : ($1, $2) -> tensor<3x4xf32>
    tosa.yield %s : tensor<3x4xf32>
  }""", [np.array(taken), floats(3, 4), floats(3, 4)], "tensor<3x4xf32>")


def repeated(count):
    """What upstream's bufferization refuses ("yield operand is not equivalent")."""
    def reference(i, v, w):
        for _ in range(count):
            v = np.tanh(v) + w
        return [np.array(7, np.int32), v]
    return reference


for count in (0, 1, 7):
    case(f"while_loop_{count}", """
  %one = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>
  %y:2 = tosa.while_loop (%i = %0, %v = %1) : ($0, $1) -> ($0, $1) {
    %limit = "tosa.const"() <{values = dense<7> : tensor<i32>}> : () -> tensor<i32>
    %more = tosa.greater %limit, %i : (tensor<i32>, $0) -> tensor<i1>
    tosa.yield %more : tensor<i1>
  } do {
  ^bb0(%j: $0, %w: $1):
    %next = tosa.add %j, %one : ($0, tensor<i32>) -> $0
    %t = tosa.tanh %w : ($1) -> $1
    %u = tosa.add %t, %2 : ($1, $2) -> $1
    tosa.yield %next, %u : $0, $1
  }""", [np.array(7 - count, np.int32), floats(2, 5), floats(2, 5)], ["tensor<i32>", "tensor<2x5xf32>"],
         reference=repeated(count))
