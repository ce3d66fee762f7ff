# SPDX-License-Identifier: Apache-2.0
"""Normalisations and softmax, forward and backward, against PyTorch's autograd."""

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()


def case(name, guid, inputs, outputs, p=b"", layouts=None, tolerance=None):
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs],
           [None if v is None else c.output(v, tolerance=tolerance) for v in outputs], p, layouts=layouts)
    return c


def grads(y, dy, *leaves):
    y.backward(dy.double())
    return [v.grad for v in leaves]


def leaf(v):
    return v.double().requires_grad_()


for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    loose = None if dtype == torch.float32 else 2e-2

    # Batch norm: x is [N, H, W, C] for the framework, {C, W, H, N} for SynapseAI.
    nhwc = rand(2, 5, 4, 3, dtype=dtype, low=-2, high=3)
    gamma, beta, mean, var = rand(3, low=0.5, high=2), rand(3), rand(3), rand(3, low=0.5, high=2)
    x, g, b = leaf(nhwc), leaf(gamma), leaf(beta)
    nchw = x.permute(0, 3, 1, 2)
    running_mean, running_var = mean.double().clone(), var.double().clone()
    y = F.batch_norm(nchw, running_mean, running_var, g, b, True, 0.25, 1e-3).permute(0, 2, 3, 1)
    saved_mean, saved_istd = nchw.mean((0, 2, 3)), (nchw.var((0, 2, 3), unbiased=False) + 1e-3).rsqrt()
    p = params("ns_BatchNormKernel_ParamsV2", momentum=0.25, epsilon=1e-3, isTraining=True)
    statistics = [v.detach().float() for v in (saved_mean, saved_istd, running_mean, running_var)]
    for guid in ("batch_norm_fwd", "batch_norm_reshape_fwd"):
        case(f"{guid}_{t}", f"{guid}_{t}", [nhwc, beta, gamma, mean, var], [y.detach().to(dtype), *statistics], p)
    case(f"batch_norm_{t}_v1", f"batch_norm_fwd_{t}", [nhwc, beta, gamma, mean, var], [y.detach().to(dtype), *statistics[:2]],
         params("ns_BatchNormKernel_Params", momentum=0.25, epsilon=1e-3))
    case(f"batch_norm_{t}_whcn", f"batch_norm_fwd_{t}", [nhwc.permute(0, 3, 1, 2).contiguous(), beta, gamma, mean, var],
         [y.detach().permute(0, 3, 1, 2).to(dtype), *statistics], p, layouts=["WHCN"])
    dy = rand(2, 5, 4, 3, dtype=dtype)
    dx, dg, db = grads(y, dy, x, g, b)
    for guid in ("batch_norm_bwd", "batch_norm_reshape_bwd"):
        case(f"{guid}_{t}", f"{guid}_{t}", [nhwc, dy, *statistics[:2], gamma], [dx.to(dtype), db.float(), dg.float()], p)
    x, g, b = leaf(nhwc), leaf(gamma), leaf(beta)
    y = F.batch_norm(x.permute(0, 3, 1, 2), mean.double(), var.double(), g, b, False, 0, 1e-3).permute(0, 2, 3, 1)
    for guid in ("batch_norm_inf", "batch_norm_inf_reshape"):
        case(f"{guid}_{t}", f"{guid}_{t}", [nhwc, beta, gamma, mean, var], [y.detach().to(dtype)], params("ns_BatchNormKernel_Params", epsilon=1e-3))
    dx, dg, db = grads(y, dy, x, g, b)
    istd = (var.double() + 1e-3).rsqrt().float()
    case(f"batch_norm_bwd_{t}_inference", f"batch_norm_bwd_{t}", [nhwc, dy, mean, istd, gamma], [dx.to(dtype), db.float(), dg.float()],
         params("ns_BatchNormKernel_ParamsV2", epsilon=1e-3, isTraining=False))

    # Instance norm.
    x, g, b = leaf(nhwc), leaf(gamma), leaf(beta)
    nchw = x.permute(0, 3, 1, 2)
    y = F.instance_norm(nchw, weight=g, bias=b, eps=1e-3).permute(0, 2, 3, 1)
    im, ii = nchw.mean((2, 3)).detach().float(), (nchw.var((2, 3), unbiased=False) + 1e-3).rsqrt().detach().float()
    p = params("ns_InstanceNormTrainingKernel_Params", eps=1e-3)
    case(f"instance_norm_{t}", f"instance_norm_fwd_{t}", [nhwc, beta, gamma], [y.detach().to(dtype), im, ii], p)
    dx, dg, db = grads(y, dy, x, g, b)
    case(f"instance_norm_bwd_{t}", f"instance_norm_bwd_{t}", [nhwc, dy, im, ii, gamma], [dx.to(dtype), db.float(), dg.float()], p)

    # Layer norm over the last dims.
    for dims, mask in ((1, 0b001), (2, 0b011)):
        value = rand(3, 5, 7, dtype=dtype, low=-2, high=3)
        shape = value.shape[-dims:]
        gamma, beta = rand(*shape, low=0.5, high=2), rand(*shape)
        x, g, b = leaf(value), leaf(gamma), leaf(beta)
        y = F.layer_norm(x, shape, g, b, 1e-4)
        axes = tuple(range(-dims, 0))
        lm = x.mean(axes, keepdim=True).detach().float()
        li = (x.var(axes, unbiased=False, keepdim=True) + 1e-4).rsqrt().detach().float()
        dy = rand(3, 5, 7, dtype=dtype)
        dx, dg, db = grads(y, dy, x, g, b)
        out, dx, dg, db = y.detach().to(dtype), dx.to(dtype), dg.float(), db.float()
        if dims == 1:
            p = params("ns_LayerNormKernel_Params", epsValid=True, eps=1e-4)
        else:
            p = params("ns_LayerNormKernel_ParamsNorm", epsValid=True, eps=1e-4, NormAxisBmp=mask, ParamAxisBmp=mask)
        case(f"layer_norm_{t}_{dims}", f"layer_norm_fwd_{t}", [value, beta, gamma], [out, lm, li], p)
        case(f"layer_norm_bwd_{t}_{dims}", f"layer_norm_bwd_{t}", [value, dy, lm, li, gamma], [dx, db, dg], p)
        pt = params("ns_LayerNormKernel_ParamsPt", epsValid=True, eps=1e-4, normalizedShapeDims=dims)
        case(f"layer_norm_pt_{t}_{dims}", f"layer_norm_fwd_pt_{t}", [value, gamma, beta], [out, lm, li], pt)
        case(f"layer_norm_bwd_pt_{t}_{dims}", f"layer_norm_bwd_pt_{t}", [dy, value, lm, li, gamma], [dx, dg, db], pt)
        case(f"layer_norm_pt_{t}_{dims}_plain", f"layer_norm_fwd_pt_{t}", [value], [F.layer_norm(value.double(), shape, eps=1e-4).to(dtype)], pt)
    # Statistics over {W, C}, parameters along C only.
    value = rand(2, 4, 5, 6, dtype=dtype)
    gamma = rand(6)
    x = value.double()
    y = (x - x.mean((2, 3), keepdim=True)) * (x.var((2, 3), unbiased=False, keepdim=True) + 1e-5).rsqrt() * gamma.double()
    case(f"layer_norm_{t}_mixed", f"layer_norm_fwd_{t}", [value, None, gamma], [y.to(dtype)],
         params("ns_LayerNormKernel_ParamsNorm", NormAxisBmp=0b0011, ParamAxisBmp=0b0001))

    # Group norm: [N, C, H, W].
    value, gamma, beta = rand(2, 6, 4, 3, dtype=dtype, low=-2, high=3), rand(6), rand(6)
    y = F.group_norm(value.double(), 3, gamma.double(), beta.double(), 1e-4)
    grouped = value.double().reshape(2, 3, -1)
    case(f"native_group_norm_{t}", f"native_group_norm_fwd_{t}", [value, gamma, beta],
         [y.to(dtype), grouped.mean(2).float(), (grouped.var(2, unbiased=False) + 1e-4).rsqrt().float()],
         params("ns_NativeGroupNorm_Params", N=2, G=3, epsilon=1e-4))

    # RMS norm.
    value, gamma, dy = rand(3, 5, 7, dtype=dtype, low=-2, high=3), rand(7, dtype=dtype, low=0.5, high=2), rand(3, 5, 7, dtype=dtype)
    x, g = leaf(value), leaf(gamma)
    inverse = (x.pow(2).mean(-1, keepdim=True) + 1e-4).rsqrt()
    y = x * inverse * g
    dx, dg = grads(y, dy, x, g)
    for guid in ("rms_norm_ex", "rms_norm_fast"):
        case(f"{guid}_{t}", f"{guid}_fwd_{t}", [value, gamma], [y.detach().to(dtype), inverse.detach().float()],
             params("ns_LayerNormKernel_Params", epsValid=True, eps=1e-4))
        case(f"{guid}_bwd_{t}", f"{guid}_bwd_{t}", [dy, value, gamma, inverse.detach().float()], [dx.to(dtype), dg.to(dtype)],
             params("ns_RmsNorm_ParamsV3"))
    case(f"rms_norm_ex_{t}_v2", f"rms_norm_ex_fwd_{t}", [value, gamma], [y.detach().to(dtype)],
         params("ns_LayerNormKernel_ParamsRmsNorm", epsValid=True, eps=1e-4, normalizedShapeDims=1, fastMath=True))

    # Softmax.
    value, dy = rand(3, 5, 7, dtype=dtype, low=-4, high=4), rand(3, 5, 7, dtype=dtype)
    for axis in range(3):
        p = params("ns_Softmax_Params", dim=axis)
        x = leaf(value)
        y = torch.softmax(x, 2 - axis)
        dx, = grads(y, dy, x)
        case(f"softmax_{t}_{axis}", f"softmax_fwd_{t}", [value], [y.detach().to(dtype)], p)
        case(f"softmax_bwd_{t}_{axis}", f"softmax_bwd_{t}", [y.detach().to(dtype), dy], [dx.to(dtype)], p, tolerance=loose)
        x = leaf(value)
        y = torch.log_softmax(x, 2 - axis)
        dx, = grads(y, dy, x)
        case(f"logsoftmax_{t}_{axis}", f"logsoftmax_fwd_{t}", [value], [y.detach().to(dtype)], p)
        case(f"logsoftmax_bwd_{t}_{axis}", f"logsoftmax_bwd_data_{t}", [dy, y.detach().to(dtype)], [dx.to(dtype)], p, tolerance=loose)
    case(f"softmax_{t}_null", f"softmax_fwd_{t}", [value], [torch.softmax(value.double(), 2).to(dtype)])
    case(f"softmax_{t}_v7", f"softmax_fwd_{t}", [value], [torch.softmax(value.double(), 1).to(dtype)], params("ns_Softmax_ParamsV7", dim=1))
    mask = torch.where(rand(5, 7, dtype=torch.bool), 0.0, -1e9).to(dtype)
    case(f"scaled_masked_softmax_{t}", f"scaled_masked_softmax_fwd_{t}", [value, mask], [torch.softmax(value.double() * 0.5 + mask.double(), 2).to(dtype)],
         params("ns_ScaledMaskedSoftmax_Params", invScaleAttn=0.5))
    seen = torch.ones(5, 7, dtype=torch.bool).tril()
    case(f"scaled_masked_triangular_{t}", f"scaled_masked_triangular_softmax_fwd_{t}", [value],
         [torch.softmax((value.double() * 0.5).masked_fill(~seen, -1e30), 2).to(dtype)], params("ns_ScaledMaskedSoftmax_ParamsV2", invScaleAttn=0.5))

# Types that are not declared: data as the suffix says, statistics f32. The casts refuse other operands.
value = rand(3, 5, dtype=torch.bfloat16)
c = suite.case("layer_norm_inferred")
y, mean, istd = c.temp(), c.temp(), c.temp()
c.node("layer_norm_fwd_bf16", [c.input(value)], [y, mean, istd], params("ns_LayerNormKernel_Params", epsValid=True, eps=1e-4))
c.node("cast_bf16_to_f32", [y], [c.output(F.layer_norm(value.double(), (5,), eps=1e-4).bfloat16().float(), tolerance=8e-3)])
c.node("cast_f32_to_bf16", [mean], [c.output(value.double().mean(1, keepdim=True).bfloat16())])
c.node("cast_f32_to_bf16", [istd], [c.output((value.double().var(1, unbiased=False, keepdim=True) + 1e-4).rsqrt().bfloat16())])

# A norm whose mean is large beside its deviation: the statistics must not lose it.
value = rand(4, 300) + 1000
y = F.layer_norm(value.double(), (300,), eps=1e-5).float()
case("layer_norm_large_mean", "layer_norm_fwd_f32", [value, None, None], [y], params("ns_LayerNormKernel_Params", epsValid=True, eps=1e-5), tolerance=1e-3)

x = rand(2, 5)
case("bad_gamma", "layer_norm_fwd_f32", [x, rand(5), rand(4)], [x], params("ns_LayerNormKernel_Params")).fails("gamma", "5")
case("bad_pt_dims", "layer_norm_fwd_pt_f32", [x], [x], params("ns_LayerNormKernel_ParamsPt", normalizedShapeDims=3)).fails("normalizedShapeDims 3")
case("bad_groups", "native_group_norm_fwd_f32", [rand(2, 6, 4)], [rand(2, 6, 4)], params("ns_NativeGroupNorm_Params", G=4)).fails("4 groups of 6")
case("bad_softmax_axis", "softmax_fwd_f32", [x], [x], params("ns_Softmax_Params", dim=2)).fails("axis 2")
case("bad_softmax_size", "softmax_fwd_f32", [x], [x], b"\0" * 6).fails("6 bytes")
case("bad_relu", "instance_norm_fwd_f32", [rand(2, 3, 4), rand(4), rand(4)], [rand(2, 3, 4)],
     params("ns_InstanceNormTrainingKernel_ParamsRelu", enRelu=1)).fails("enRelu")
case("bad_batch_norm", "batch_norm_inf_f32", [x, rand(5), rand(5), rand(5), rand(2)], [x]).fails("running variance")

sys.exit(suite.main())
