# SPDX-License-Identifier: Apache-2.0
"""Reductions, extremes, products of the framework's kind against PyTorch."""

import struct

from cases import *
from layer_params import params

suite = Suite()


def case(name, guid, inputs, outputs, p=b"", tolerance=None, declare=True):
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs],
           [None if v is None else c.output(v, tolerance=tolerance, declare=declare) for v in outputs], p)
    return c


SHAPE = (3, 5, 4, 7)
REDUCE = {
    "sum": lambda x, d: x.sum(d, keepdim=True), "mean": lambda x, d: x.mean(d, keepdim=True),
    "max": lambda x, d: x.amax(d, keepdim=True), "min": lambda x, d: x.amin(d, keepdim=True),
    "sum_square": lambda x, d: (x * x).sum(d, keepdim=True),
    "l1": lambda x, d: x.abs().sum(d, keepdim=True), "l2": lambda x, d: (x * x).sum(d, keepdim=True).sqrt(),
    "log_sum_exp": lambda x, d: torch.logsumexp(x, d, keepdim=True),
}


def prod(x, dims):
    for d in dims:
        x = x.prod(d, keepdim=True)
    return x


REDUCE["prod"] = lambda x, d: prod(x, (d,) if isinstance(d, int) else d)

for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    x = rand(*SHAPE, dtype=dtype, low=-2, high=2)
    for kind, function in REDUCE.items():
        for axis in range(4):  # SynapseAI's: 0 is the last dim.
            case(f"reduce_{kind}_{t}_{axis}", f"reduce_{kind}_fwd_{t}", [x], [function(x.double(), 3 - axis).to(dtype)],
                 params("ns_Reduction_Params", reductionDimension=axis), declare=axis % 2 == 0)
    for kind in ("sum", "mean", "max", "min", "sum_square", "prod", "log_sum_exp"):
        for mask, dims in ((0b0001, (3,)), (0b0110, (1, 2)), (0b1001, (0, 3)), (0b1111, (0, 1, 2, 3)), (0, (0, 1, 2, 3))):
            for keep in (True, False):
                expected = REDUCE[kind](x.double(), dims).to(dtype)
                if not keep:
                    expected = expected.reshape([s for d, s in enumerate(expected.shape) if d not in dims] or [1])
                case(f"reduce_{kind}_multi_{t}_{mask}_{int(keep)}", f"reduce_{kind}_multi_dim_fwd_{t}", [x], [expected],
                     params("ns_Reduction_ParamsV2", reductionDimensionMask=mask, keepDim=keep))
    values, indices = x.max(1, keepdim=True)
    case(f"reduce_max_{t}_indices", f"reduce_max_fwd_{t}", [x], [values, indices.int()], params("ns_Reduction_Params", reductionDimension=2))
    values, indices = x.min(3, keepdim=True)
    case(f"reduce_min_{t}_indices", f"reduce_min_fwd_{t}", [x], [values, indices.int()], params("ns_Reduction_Params", reductionDimension=0))
    for p, kind in ((3.0, "ns_ReduceLpV2_Params"), (2.0, "ns_ReduceLpV2_Params"), (float("inf"), "ns_ReduceLpV2_Params")):
        expected = torch.linalg.vector_norm(x.double(), p, 2, keepdim=True).to(dtype)
        case(f"reduce_lp_{t}_{p}", f"reduce_lp_fwd_{t}", [x], [expected],
             params(kind, reductionDimension=1, p=p, typeOfP="TYPE_P_IS_FLOAT"))
    case(f"reduce_lp_multi_{t}", f"reduce_Lp_multi_dim_fwd_{t}", [x], [torch.linalg.vector_norm(x.double(), 1, (1, 3)).to(dtype)],
         params("ns_ReduceLpV2_ParamsV2", reductionDimensionMask=0b0101, keepDim=False, p=1, typeOfP="TYPE_P_IS_INT"))
    norm = torch.linalg.vector_norm(x.double(), 2, 3, keepdim=True)
    case(f"lpnorm_{t}", f"lpnorm_fwd_{t}", [x], [(x.double() / (norm + 0.5)).to(dtype), norm.to(dtype)],
         params("ns_LpNormKernel_Params", p=2.0, eps=0.5, dim=0))
    case(f"lpnorm_{t}_max", f"lpnorm_fwd_{t}", [x], [(x.double() / norm.clamp(min=2.5)).to(dtype)],
         params("ns_LpNormKernel_ParamsNorm", p=2.0, eps=2.5, dim=0, epsMax=True))
    case(f"norm_moments_{t}", f"norm_moments_fwd_{t}", [x],
         [x.double().mean((1, 3), keepdim=True).float(), x.double().var((1, 3), unbiased=False, keepdim=True).float()],
         params("ns_NormMomentsKernel_Params", NormAxisBmp=0b0101))
    for kind in ("max", "min"):
        find = torch.argmax if kind == "max" else torch.argmin
        case(f"arg{kind}_{t}", f"arg{kind}_fwd_{t}", [x], [find(x, 2, keepdim=True).int()], params("ns_Reduction_Params", reductionDimension=1))
        case(f"arg{kind}_multi_{t}", f"arg{kind}_multi_dim_fwd_{t}", [x], [find(x, 1).to(torch.int64)],
             params("ns_Reduction_ParamsV2", reductionDimensionMask=0b0100, keepDim=False))
        case(f"arg{kind}_all_{t}", f"arg{kind}_multi_dim_fwd_{t}", [x], [find(x).reshape(1).int()],
             params("ns_Reduction_ParamsV2", reductionDimensionMask=0b1111, keepDim=False))

    # Products of the framework's kind.
    x, w, b = rand(3, 5, 6, dtype=dtype), rand(4, 6, dtype=dtype), rand(4, dtype=dtype)
    y = torch.nn.functional.linear(x.double(), w.double(), b.double())
    case(f"linear_{t}", f"linear_fwd_{t}", [x, w, b], [y.to(dtype)])
    case(f"linear_{t}_plain", f"linear_fwd_{t}", [x, w], [torch.nn.functional.linear(x.double(), w.double()).to(dtype)], declare=False)
    leaves = [v.double().requires_grad_() for v in (x, w, b)]
    dy = rand(3, 5, 4, dtype=dtype)
    torch.nn.functional.linear(*leaves).backward(dy.double())
    grads = [v.grad.to(dtype) for v in leaves]
    case(f"linear_temp_bwd_{t}", f"linear_temp_bwd_{t}", [x, dy, w], grads, params("ns_LinearBwdKernel_Params", gradBias=True))
    case(f"linear_temp_bwd_{t}_no_bias", f"linear_temp_bwd_{t}", [x, dy, w], grads[:2], params("ns_LinearBwdKernel_Params", gradBias=False))
    for name, sa, sb in (("plain", (5, 6), (6, 4)), ("batch", (2, 1, 5, 6), (3, 6, 4)), ("vector", (5, 6), (6,)), ("row", (6,), (2, 6, 4))):
        a, c = rand(*sa, dtype=dtype), rand(*sb, dtype=dtype)
        case(f"matmul_{t}_{name}", f"matmul_fwd_{t}", [a, c], [(a.double() @ c.double()).to(dtype)])
    a, c = rand(6, dtype=dtype), rand(6, dtype=dtype)
    case(f"dot_{t}", f"dot_fwd_{t}", [a, c], [(a.double() @ c.double()).reshape(1).to(dtype)])
    m = rand(5, 6, dtype=dtype)
    case(f"mv_{t}", f"mv_fwd_{t}", [m, c], [(m.double() @ c.double()).to(dtype)])
    a, c, dy = rand(2, 3, 5, 6, dtype=dtype), rand(3, 6, 4, dtype=dtype), rand(2, 3, 5, 4, dtype=dtype)
    leaves = [v.double().requires_grad_() for v in (a, c)]
    (leaves[0] @ leaves[1]).backward(dy.double())
    case(f"matmul_bwd_{t}", f"matmul_bwd_{t}", [dy, a, c], [v.grad.to(dtype) for v in leaves])
    bias, a, c = rand(4, dtype=dtype), rand(5, 6, dtype=dtype), rand(6, 4, dtype=dtype)
    case(f"addmm_{t}", f"addmm_{t}", [bias, a, c], [torch.addmm(bias.double(), a.double(), c.double(), beta=0.5, alpha=2).to(dtype)],
         params("ns_AddmmKernel_Params", alpha=2.0, beta=0.5))

for dtype in (torch.int32, torch.int8):
    t = TYPE_NAMES[dtype]
    x = rand(3, 5, 7, dtype=dtype, low=-90, high=90)
    case(f"reduce_sum_{t}", f"reduce_sum_fwd_{t}", [x], [x.sum(2, keepdim=True).int()], params("ns_Reduction_Params", reductionDimension=0))
    case(f"reduce_max_{t}", f"reduce_max_fwd_{t}", [x], [x.amax(1, keepdim=True)], params("ns_Reduction_Params", reductionDimension=1))
    case(f"argmin_{t}", f"argmin_fwd_{t}", [x], [x.argmin(1, keepdim=True).int()], params("ns_Reduction_Params", reductionDimension=1))

x = rand(3, 5)
case("bad_axis", "reduce_sum_fwd_f32", [x], [x], params("ns_Reduction_Params", reductionDimension=2)).fails("axis 2", "rank 2")
case("bad_mask", "reduce_sum_multi_dim_fwd_f32", [x], [x], params("ns_Reduction_ParamsV2", reductionDimensionMask=8)).fails("axis 3")
case("bad_params", "reduce_sum_fwd_f32", [x], [x]).fails("needs parameters")
case("bad_moments", "norm_moments_fwd_f32", [x], [x, x], params("ns_NormMomentsKernel_ParamsV2", NormAxisBmp=1, useEstMean=True)).fails("useEstMean")
case("bad_linear", "linear_fwd_f32", [x, rand(4, 6)], [rand(3, 4)]).fails("linear_fwd_f32")
case("bad_linear_bias", "linear_temp_bwd_f32", [x, rand(3, 4), rand(4, 5)], [x, rand(4, 5), rand(4)],
     params("ns_LinearBwdKernel_Params", gradBias=False)).fails("gradBias")

sys.exit(suite.main())
