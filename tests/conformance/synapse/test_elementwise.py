# SPDX-License-Identifier: Apache-2.0
"""Elementwise nodes, activations and their gradients, and casts against PyTorch."""

import math

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()
SHAPE = (3, 5, 7)


def case(name, guid, inputs, outputs, p=b"", tolerance=None):
    """None among the inputs is an absent operand; outputs are expected values."""
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs], [c.output(v, tolerance=tolerance) for v in outputs], p)
    return c


def gradients(function, dy, *values):
    """Of sum(function(*values) * dy), in double, in the values' type."""
    leaves = [v.double().requires_grad_() for v in values]
    function(*leaves).backward(dy.double())
    return [leaf.grad.to(v.dtype) for leaf, v in zip(leaves, values)]


for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    a, b = rand(*SHAPE, dtype=dtype, low=-4, high=4), rand(*SHAPE, dtype=dtype, low=0.5, high=3)
    row, one, column = rand(7, dtype=dtype, low=0.5, high=2), rand(1, dtype=dtype, low=0.5, high=2), rand(5, 1, dtype=dtype, low=1, high=2)
    for guid, function in (("add_fwd", torch.add), ("sub", torch.sub), ("mult_fwd", torch.mul), ("div", torch.div),
                           ("max_fwd", torch.maximum), ("min", torch.minimum)):
        for other, value in (("same", b), ("row", row), ("one", one), ("column", column)):
            case(f"{guid}_{t}_{other}", f"{guid}_{t}", [a, value], [function(a.double(), value.double()).to(dtype)])
        case(f"{guid}_{t}_first", f"{guid}_{t}", [row, a], [function(row.double(), a.double()).to(dtype)])
    case(f"pow_{t}", f"pow_fwd_{t}", [b, a], [torch.pow(b.double(), a.double()).to(dtype)])
    case(f"mod_{t}", f"mod_fwd_{t}", [a, b], [torch.fmod(a.double(), b.double()).to(dtype)])
    case(f"rem_{t}", f"rem_fwd_{t}", [a, -b], [torch.remainder(a.double(), -b.double()).to(dtype)])
    for mode in (None, "trunc", "floor"):
        value = "DIV_ROUND_" + (mode or "none").upper()
        case(f"div_round_{t}_{mode}", f"div_round_fwd_{t}", [a, b], [torch.div(a.double(), b.double(), rounding_mode=mode).to(dtype)],
             params("ns_DivRoundKernel_Params", mode=value))
    for mode, expected in (("ADD", a + 0.5 * b), ("SUB", a - 0.5 * b), ("RSUB", b - 0.5 * a), ("CMUL", a + 0.5 * b * b), ("CDIV", a + 0.5 * (b / row))):
        inputs = [a, b] + ([b] if mode == "CMUL" else [row] if mode == "CDIV" else [])
        case(f"binary_with_alpha_{t}_{mode}", f"binary_with_alpha_fwd_{t}", inputs, [expected],
             params("ns_BinaryWithAlphaKernel_Params", alpha=0.5, mode="BINARY_WITH_ALPHA_MODE_" + mode))
    case(f"addcmul_{t}", f"addcmul_fwd_{t}", [a, b, row], [torch.addcmul(a.double(), b.double(), row.double(), value=0.25).to(dtype)],
         params("ns_AddcmulKernel_Params", value=0.25))
    case(f"addcdiv_{t}", f"addcdiv_fwd_{t}", [a, b, row], [torch.addcdiv(a.double(), b.double(), row.double()).to(dtype)])
    case(f"addcdiv_{t}_tensor", f"addcdiv_fwd_{t}", [a, b, row, one],
         [(a.double() + one.double() * b.double() / row.double()).to(dtype)])

    equal = torch.where(rand(*SHAPE, dtype=torch.bool), a, b)
    for guid, function in (("equal", torch.eq), ("not_equal", torch.ne), ("less", torch.lt), ("less_equal", torch.le),
                           ("greater", torch.gt), ("greater_equal", torch.ge)):
        case(f"{guid}_{t}", f"{guid}_fwd_{t}", [equal, a], [function(equal, a)])
    condition = rand(*SHAPE, dtype=torch.bool)
    case(f"where_{t}", f"where_fwd_{t}", [condition, a, row], [torch.where(condition, a, row)])
    case(f"where_{t}_u8", f"where_fwd_{t}", [condition.to(torch.uint8) * 3, a, b], [torch.where(condition, a, b)])
    case(f"masked_fill_{t}", f"masked_fill_fwd_{t}", [a, condition], [a.masked_fill(condition, 2.5)],
         params("ns_MaskedFill_ParamsV2", value=2.5))
    case(f"masked_fill_{t}_tensor", f"masked_fill_fwd_{t}", [a, condition, one], [a.masked_fill(condition, one.item())])

    # Gradients.
    dy = rand(*SHAPE, dtype=dtype)
    case(f"add_bwd_{t}", f"add_bwd_{t}", [dy], [dy, dy.double().sum((0, 1)).to(dtype)])
    case(f"sub_bwd_{t}", f"sub_bwd_{t}", [dy], [dy, -dy])
    for guid, function in (("mult", torch.mul), ("div", torch.div)):
        for other, value in (("same", b), ("column", column)):
            case(f"{guid}_bwd_{t}_{other}", f"{guid}_bwd_{t}", [dy, a, value], gradients(function, dy, a, value))
    for guid, function in (("max", torch.maximum), ("min", torch.minimum)):
        case(f"{guid}_bwd_{t}", f"{guid}_bwd_{t}", [dy, a, row], gradients(function, dy, a, row))

    # Functions of one element.
    unit, positive = rand(*SHAPE, dtype=dtype, low=-0.95, high=0.95), rand(*SHAPE, dtype=dtype, low=0.05, high=6)
    above = rand(*SHAPE, dtype=dtype, low=1.01, high=50)
    for guid, function, x in (
            ("abs", torch.abs, a), ("neg", torch.neg, a), ("sign", torch.sign, a), ("ceil", torch.ceil, a), ("floor", torch.floor, a),
            ("trunc", torch.trunc, a), ("exp", torch.exp, a), ("expm1", torch.expm1, a * 0.1), ("log", torch.log, positive),
            ("log2", torch.log2, positive), ("log10", torch.log10, positive), ("log1p", torch.log1p, positive * 0.01),
            ("sqrt", torch.sqrt, positive), ("rsqrt", torch.rsqrt, positive), ("reciprocal", torch.reciprocal, b), ("sin", torch.sin, a),
            ("cos", torch.cos, a), ("tan", torch.tan, unit), ("asin", torch.asin, unit), ("acos", torch.acos, unit), ("atan", torch.atan, a),
            ("sinh", torch.sinh, a), ("cosh", torch.cosh, a), ("asinh", torch.asinh, a), ("acosh", torch.acosh, above),
            ("atanh", torch.atanh, unit), ("erf", torch.erf, a), ("erfc", torch.erfc, a), ("erfinv", torch.erfinv, unit),
            ("gammaln", torch.lgamma, positive), ("pow2", torch.exp2, a), ("relu", torch.relu, a), ("sigmoid", torch.sigmoid, a),
            ("tanh", torch.tanh, a), ("silu", F.silu, a), ("mish", F.mish, a), ("hard_swish", F.hardswish, a), ("round", torch.round, a)):
        case(f"{guid}_{t}", f"{guid}_fwd_{t}", [x], [function(x.double()).to(dtype)])
    special = torch.tensor([0.0, -1.5, math.inf, -math.inf, math.nan, 3.0, -0.0], dtype=dtype)
    case(f"isnan_{t}", f"isnan_fwd_{t}", [special], [special.isnan()])
    case(f"isfinite_{t}", f"isfinite_fwd_{t}", [special], [special.isfinite()])
    case(f"isinf_{t}", f"isinf_fwd_{t}", [special], [special.isinf()])
    case(f"isinf_{t}_negative", f"isinf_fwd_{t}", [special], [special.isneginf()], params("ns_IsInfKernel_Params", detect_negative=1))
    case(f"nan_to_num_{t}", f"nan_to_num_fwd_{t}", [special], [torch.nan_to_num(special, 1.0, 8.0, -8.0)],
         params("ns_NanToNumKernel_Params", nan=1.0, posInf=8.0, negInf=-8.0))
    halves = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.25], dtype=dtype)
    case(f"round_{t}_away", f"round_fwd_{t}", [halves], [halves.sign() * (halves.abs() + 0.5).floor()],
         params("ns_RoundKernel_Params", roundMode="ROUND_HALF_AWAY_FROM_ZERO"))
    case(f"round_{t}_decimals", f"round_fwd_{t}", [a], [torch.round(a.double(), decimals=1).to(dtype)],
         params("ns_RoundKernel_ParamsV2", roundMode="ROUND_HALF_NEAREST_EVEN", num_decimal_round=1))

    # Activations with parameters, and gradients.
    case(f"relu_{t}_threshold", f"relu_fwd_{t}", [a], [F.threshold(a, 1.0, 0.0)], params("ns_ReluKernel_Params", threshold=1.0))
    case(f"threshold_{t}", f"threshold_fwd_{t}", [a], [F.threshold(a, 1.0, -3.0)],
         params("ns_ReluKernel_ParamsV2", threshold=1.0, replacementValue=-3.0))
    case(f"relu_bwd_{t}", f"relu_bwd_{t}", [dy, torch.relu(a)], gradients(torch.relu, dy, a))
    slope = params("ns_LeakyReluKernel_Params", alpha=0.2)
    leaky = lambda x: F.leaky_relu(x, 0.2)
    case(f"leakyrelu_{t}", f"leakyrelu_fwd_{t}", [a], [leaky(a.double()).to(dtype)], slope)
    case(f"leakyrelu_bwd_{t}", f"leakyrelu_bwd_{t}", [dy, a], gradients(leaky, dy, a), slope)
    elu = lambda x: F.elu(x, 0.75)
    case(f"elu_{t}", f"elu_fwd_{t}", [a], [elu(a.double()).to(dtype)], params("ns_EluKernel_Params", alpha=0.75))
    case(f"elu_bwd_{t}_result", f"elu_bwd_{t}", [dy, elu(a.double()).to(dtype)], gradients(elu, dy, a), params("ns_EluKernel_Params", alpha=0.75))
    case(f"elu_bwd_{t}_operand", f"elu_bwd_{t}", [dy, a], gradients(elu, dy, a), params("ns_EluKernel_ParamsV2", alpha=0.75, isInputFeaturemap=True))
    scaled = lambda x: torch.where(x > 0, 1.25 * x, 1.25 * 0.75 * torch.expm1(0.5 * x))
    v3 = params("ns_EluKernel_ParamsV3", alpha=0.75, scale=1.25, input_scale=0.5, isInputFeaturemap=True)
    case(f"elu_{t}_scaled", f"elu_fwd_{t}", [a], [scaled(a.double()).to(dtype)], v3)
    case(f"elu_bwd_{t}_scaled", f"elu_bwd_{t}", [dy, a], gradients(scaled, dy, a), v3)
    case(f"selu_{t}", f"selu_fwd_{t}", [a], [F.selu(a.double()).to(dtype)])
    case(f"selu_bwd_{t}", f"selu_bwd_{t}", [dy, a], gradients(F.selu, dy, a))
    for guid, function in (("sigmoid", torch.sigmoid), ("tanh", torch.tanh)):
        small = rand(*SHAPE, dtype=dtype)
        case(f"{guid}_bwd_{t}", f"{guid}_bwd_{t}", [dy, function(small.double()).to(dtype)], gradients(function, dy, small),
             tolerance=None if dtype == torch.float32 else 2e-2)
    for guid, function in (("silu", F.silu), ("mish", F.mish), ("hard_swish", F.hardswish)):
        case(f"{guid}_bwd_{t}", f"{guid}_bwd_{t}", [dy, a], gradients(function, dy, a))
    hard = params("ns_HardSigmoidKernel_Params", alpha=1 / 6, beta=0.5)
    case(f"hard_sigmoid_{t}", f"hard_sigmoid_fwd_{t}", [a], [F.hardsigmoid(a.double()).to(dtype)], hard)
    case(f"hard_sigmoid_bwd_{t}", f"hard_sigmoid_bwd_{t}", [dy, a], gradients(F.hardsigmoid, dy, a), hard)
    case(f"hardtanh_bwd_{t}", f"hardtanh_bwd_{t}", [dy, a], gradients(lambda x: F.hardtanh(x, -1.5, 2.0), dy, a),
         params("ns_HardTanhKernel_Params", upperBound=2.0, lowerBound=-1.5))
    soft = lambda x: F.softplus(x, 2.0, 3.0)
    case(f"softplus_{t}", f"softplus_fwd_{t}", [a], [soft(a.double()).to(dtype)], params("ns_Softplus_Params", beta=2.0, threshold=3.0))
    case(f"softplus_bwd_{t}", f"softplus_bwd_{t}", [dy, a], gradients(soft, dy, a), params("ns_Softplus_ParamsV2", beta=2.0, threshold=3.0))
    weight = rand(7, dtype=dtype)
    prelu = lambda x, w: torch.where(x > 0, x, w * x)
    case(f"prelu_{t}", f"prelu_fwd_{t}", [a, weight], [prelu(a.double(), weight.double()).to(dtype)])
    case(f"prelu_bwd_{t}", f"prelu_bwd_{t}", [dy, a, weight], gradients(prelu, dy, a, weight))
    for kind, approximate in (("erf", "none"), ("tanh", "tanh")):
        p = params("ns_GeluKernel_Params", approximation=kind == "tanh")
        gelu = lambda x: F.gelu(x, approximate=approximate)
        x = a.double()
        inner = torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)) if kind == "tanh" else 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        case(f"gelu_{t}_{kind}", f"gelu_fwd_{t}", [a], [gelu(x).to(dtype), inner.to(dtype)], p)
        case(f"gelu_bwd_{t}_{kind}", f"gelu_bwd_{t}", [dy, a, inner.to(dtype)], gradients(gelu, dy, a), p)
        case(f"cgelu_bwd_{t}_{kind}", f"cgelu_bwd_{t}", [dy, a], gradients(gelu, dy, a), p)
    bounds = params("ns_ClampKernel_Params", upperBound=2.0, lowerBound=-1.0)
    case(f"clamp_{t}", f"clamp_fwd_{t}", [a], [a.clamp(-1, 2)], bounds)
    case(f"clamp_pt_{t}", f"clamp_pt_fwd_{t}", [a], [a.clamp(-1, 2)], bounds)
    case(f"clamp_pt_{t}_tensors", f"clamp_pt_fwd_{t}", [a, -row, row], [torch.clamp(a, -row, row)])
    case(f"clamp_pt_{t}_max", f"clamp_pt_fwd_{t}", [a, None, row], [torch.clamp(a, max=row)])

# Integers.
for dtype in (torch.int32, torch.int16, torch.int8):
    t = TYPE_NAMES[dtype]
    a, b = rand(*SHAPE, dtype=dtype, low=-50, high=50), rand(7, dtype=dtype, low=1, high=9)
    for guid, function in (("add", torch.add), ("sub", torch.sub), ("mult", torch.mul), ("max", torch.maximum), ("min", torch.minimum)):
        case(f"{guid}_{t}", f"{guid}_fwd_{t}", [a, b], [function(a, b)])
    case(f"div_{t}", f"div_fwd_{t}", [a, b], [torch.div(a, b, rounding_mode="trunc")])
    case(f"mod_{t}", f"mod_fwd_{t}", [a, b], [torch.fmod(a, b)])
    case(f"rem_{t}", f"rem_fwd_{t}", [a, -b], [torch.remainder(a, -b)])
    floor = [torch.div(a, -b, rounding_mode="floor"), torch.remainder(a, -b)]
    case(f"div_mod_{t}_python", f"div_mod_fwd_{t}", [a, -b], floor, params("ns_DivModKernel_Params", isPyCompatible=True))
    case(f"div_mod_{t}", f"div_mod_fwd_{t}", [a, -b], [torch.div(a, -b, rounding_mode="trunc"), torch.fmod(a, -b)])
    case(f"abs_{t}", f"abs_fwd_{t}", [a], [a.abs()])
    case(f"neg_{t}", f"neg_fwd_{t}", [a], [-a])
    case(f"sign_{t}", f"sign_fwd_{t}", [a], [a.sign()])
    case(f"clamp_{t}", f"clamp_fwd_{t}", [a], [a.clamp(-7, 20)], params("ns_ClampKernel_Params", upperBound=20, lowerBound=-7))
    case(f"less_{t}", f"less_fwd_{t}", [a, b], [a < b])
    for guid, function in (("and", torch.bitwise_and), ("or", torch.bitwise_or), ("xor", torch.bitwise_xor)):
        case(f"bitwise_{guid}_{t}", f"bitwise_{guid}_fwd_{t}", [a, b], [function(a, b)])
    case(f"bitwise_not_{t}", f"bitwise_not_fwd_{t}", [a], [~a])
    count = rand(7, dtype=dtype, low=0, high=4)
    case(f"bitshift_{t}_left", f"bitshift_fwd_{t}", [a, count], [a << count], params("ns_BitShiftKernel_Params", direction="LEFT"))
    case(f"bitshift_{t}_right", f"bitshift_fwd_{t}", [a, count], [a >> count],
         params("ns_BitShiftKernel_ParamsV2", direction="RIGHT", mode="ARITHMETIC"))
    unsigned = (a.long() & (2 ** (8 * a.element_size()) - 1)) >> count.long()
    case(f"bitshift_{t}_logical", f"bitshift_fwd_{t}", [a, count], [unsigned.to(dtype)],
         params("ns_BitShiftKernel_ParamsV2", direction="RIGHT", mode="LOGICAL"))
p, q = rand(*SHAPE, dtype=torch.bool), rand(7, dtype=torch.bool)
for guid, function in (("and", torch.logical_and), ("or", torch.logical_or), ("xor", torch.logical_xor)):
    case(f"{guid}_i8", f"{guid}_i8", [p.to(torch.int8) * 5, q], [function(p, q)])
case("not_i8", "not_i8", [p.to(torch.int8) * 5], [~p])

# Casts.
x = torch.tensor([-2.5, -1.5, -0.6, 0.4, 0.5, 1.5, 2.5, 3.7, 100.2], dtype=torch.float32)
case("cast_f32_i32", "cast_f32_to_i32", [x], [x.round().to(torch.int32)])
for mode, expected in (("ZERO", x.trunc()), ("DOWN", x.floor()), ("UP", x.ceil()), ("HALF_AZ", x.sign() * (x.abs() + 0.5).floor())):
    case(f"cast_f32_i32_{mode}", "cast_f32_to_i32", [x], [expected.to(torch.int32)], params("ns_CastKernel_Params", round_mode="CAST_ROUND_" + mode))
big = torch.tensor([-1000.0, 300.0, 127.4, -128.4, 5.0])
case("cast_f32_i8", "cast_f32_to_i8", [big], [torch.tensor([-128, 127, 127, -128, 5], dtype=torch.int8)])
ints = torch.tensor([-1000, 300, 127, -128, 5], dtype=torch.int32)
case("cast_i32_i8", "cast_i32_to_i8", [ints], [ints.to(torch.int8)])
case("cast_i32_i8_sat", "cast_i32_to_i8", [ints], [ints.clamp(-128, 127).to(torch.int8)],
     params("ns_CastKernel_ParamsV3", round_mode="CAST_ROUND_DEFAULT", mode="CAST_SAT"))
y = rand(*SHAPE, low=-100, high=100)
case("cast_f32_bf16", "cast_f32_to_bf16", [y], [y.bfloat16()])
case("cast_bf16_f32", "cast_bf16_to_f32", [y.bfloat16()], [y.bfloat16().float()])
case("cast_f32_f16", "cast_f32_to_f16", [y], [y.half()])
case("cast_i8_f32", "cast_i8_to_f32", [y.to(torch.int8)], [y.to(torch.int8).float()])
case("cast_i32_i64", "cast_i32_to_i64", [y.to(torch.int32)], [y.to(torch.int64)])
case("cast_u8_i32", "cast_u8_to_i32", [y.abs().to(torch.uint8)], [y.abs().to(torch.int32)])

# Misuse: each says what is wrong.
a = rand(*SHAPE)
case("bad_broadcast", "add_fwd_f32", [a, rand(3)], [a]).fails("n0", "add_fwd_f32", "broadcast")
case("bad_types", "add_fwd_f32", [a, a.bfloat16()], [a]).fails("bf16", "f32")
case("bad_sizes", "relu_fwd_f32", [a], [a[:2]]).fails("output 0", "sizes")
case("bad_params_size", "leakyrelu_fwd_f32", [a], [a], b"\0\0\0").fails("3 bytes", "ns_LeakyReluKernel")
case("bad_mode", "binary_with_alpha_fwd_f32", [a, a], [a], params("ns_BinaryWithAlphaKernel_Params", mode=9)).fails("unknown mode 9")
case("bad_missing", "where_fwd_f32", [a > 0, a], [a]).fails("is missing")
case("bad_suffix", "bitwise_and_fwd_f32", [a, a], [a]).fails("f32", "i32")
case("bad_rounding", "cast_f32_to_bf16", [a], [a.bfloat16()], params("ns_CastKernel_Params", round_mode="CAST_ROUND_SR")).fails("rounding mode 3")
case("bad_cast_type", "cast_i32_to_f32", [a], [a]).fails("f32", "i32")
case("bad_clamp", "clamp_fwd_f32", [a], [a]).fails("needs parameters")

sys.exit(suite.main())
