# SPDX-License-Identifier: Apache-2.0
"""Whole training steps as one graph: forward, loss, backward, weights updated in place; a transformer block."""

import struct

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()
CONV = struct.pack("<4I4i2I", 3, 3, 1, 1, 1, 1, 1, 1, 1, 1) + struct.pack("<??HIQQ", False, False, 0, 1, 0, 0) + struct.pack("<II", 1, 0)
NO, LEFT, RIGHT = (struct.pack("??", *flags) for flags in ((False, False), (True, False), (False, True)))


def classifier_step(name, batch, dtype, rate=0.125, decay=0.01):
    """conv 3x3, relu, gemm, softmax cross-entropy; SGD with weight decay. Weights are f32, products `dtype`."""
    classes, channels, size = 5, 8, 6
    x, labels = rand(batch, size, size, 4), rand(batch, dtype=torch.int32, low=0, high=classes)
    conv_w, fc_w, fc_b = rand(3, 3, 4, channels) * 0.5, rand(size * size * channels, classes) * 0.2, rand(classes)

    # PyTorch in double, rounded to `dtype` where SynapseAI's tensors are.
    narrow = lambda v: v + (v.detach().to(dtype).double() - v.detach())
    weights = [w.double().requires_grad_() for w in (conv_w, fc_w, fc_b)]
    cw, fw, fb = (narrow(w) for w in weights)
    y = narrow(F.conv2d(narrow(x.double()).permute(0, 3, 1, 2), cw.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1))
    logits = F.relu(y).reshape(batch, -1) @ fw + fb
    loss = F.cross_entropy(logits, labels.long())
    loss.backward()
    updated = [(w - rate * (w.grad + decay * w)).detach().float() for w in weights]

    c = suite.case(name)
    t = TYPE_NAMES[dtype]
    wide = dtype == torch.float32
    sections = [c.section("persistent") for _ in weights]
    masters = [c.input(w, section=s, name=f"w{i}") for i, (w, s) in enumerate(zip((conv_w, fc_w, fc_b), sections))]
    image, target = c.input(x), c.input(labels)

    def cast(v, shape):
        if wide:
            return v
        out = c.temp(shape, dtype)
        c.node(f"cast_f32_to_{t}", [v], [out])
        return out

    xn = cast(image, x.shape)
    cwn, fwn, fbn = (cast(m, w.shape) for m, w in zip(masters, (conv_w, fc_w, fc_b)))
    conv, act, flat, out = c.temp(y.shape, dtype), c.temp(y.shape, dtype), c.temp((batch, fc_w.shape[0]), dtype), c.temp((batch, classes), dtype)
    c.node("spatial_convolution", [xn, cwn], [conv], CONV)
    c.node(f"relu_fwd_{t}", [conv], [act])
    c.node("reshape", [act], [flat])
    c.node("gemm", [flat, fwn, fbn], [out], NO)
    # The loss is small: in f32.
    wide_logits = out if wide else c.temp((batch, classes), torch.float32)
    if not wide:
        c.node(f"cast_{t}_to_f32", [out], [wide_logits])
    log_softmax, d_out = c.temp((batch, classes), torch.float32), c.temp((batch, classes), torch.float32)
    tolerance = None if wide else 0.02
    cross = params("ns_SoftmaxCrossEntropy_Params", mode="CROSS_ENTROPY_MODE_MEAN", batchSize=batch)
    c.node("softmax_cross_entropy_fwd_f32", [wide_logits, target], [c.output(loss.detach().float().reshape(1), tolerance=tolerance), log_softmax], cross)
    c.node("softmax_cross_entropy_bwd_f32", [log_softmax, target], [d_out], cross)
    d_out = cast(d_out, (batch, classes))
    d_flat, d_act, d_conv = c.temp(None, dtype), c.temp(y.shape, dtype), c.temp(y.shape, dtype)
    d_fw, d_fb, d_cw = c.temp(fc_w.shape, torch.float32), c.temp((1, classes), torch.float32), c.temp(conv_w.shape, torch.float32)
    c.node("gemm_dedw", [d_out, flat], [d_fw], LEFT)
    c.node("gemm_dedx", [d_out, fwn], [d_flat], RIGHT)
    sum_type = d_out if wide else c.temp((batch, classes), torch.float32)
    if not wide:
        c.node(f"cast_{t}_to_f32", [d_out], [sum_type])
    c.node("reduce_sum_fwd_f32", [sum_type], [d_fb], params("ns_Reduction_Params", reductionDimension=1))
    d_bias = c.temp((classes,), torch.float32)
    c.node("squeeze", [d_fb], [d_bias], struct.pack("<I", 1))
    c.node("reshape", [d_flat], [d_act])
    c.node(f"relu_bwd_{t}", [d_act, act], [d_conv])
    c.node("dedw", [d_conv, xn], [d_cw], CONV)
    lr = c.const(torch.tensor([rate]))
    sgd = params("ns_OptimizerSGD_Params", wd=decay, mom=0.0, damp=0.0, nesterov=False)
    for i, (master, gradient, new) in enumerate(zip(masters, (d_cw, d_fw, d_bias), updated)):
        c.node("optimizer_sgd_bwd_f32", [gradient, master, lr], [c.output(new, section=sections[i], name=f"new{i}", tolerance=tolerance)], sgd)


for dtype in FLOATS:
    for batch in (1, 4, 33):
        classifier_step(f"classifier_step_{TYPE_NAMES[dtype]}_{batch}", batch, dtype)


def attention_step(name, dtype, batch=2, heads=3, length=7, width=4):
    """softmax(q k^T / sqrt(d)) v and its gradients from batch_gemm and TPC nodes."""
    q, k, v = (rand(batch, heads, length, width, dtype=dtype) for _ in range(3))
    g = rand(batch, heads, length, width, dtype=dtype)
    scale = width ** -0.5
    qd, kd, vd = (w.double().requires_grad_() for w in (q, k, v))
    narrow = lambda w: w + (w.detach().to(dtype).double() - w.detach())
    p = narrow(torch.softmax(narrow(narrow(qd @ kd.mT) * scale), -1))
    out = p @ vd
    out.backward(g.double())
    c = suite.case(name)
    t = TYPE_NAMES[dtype]
    qi, ki, vi, gi = (c.input(w) for w in (q, k, v, g))
    factor = c.const(torch.tensor([scale]).to(dtype))
    square = (batch, heads, length, length)
    scores, scaled, probs, d_probs, d_scaled, d_scores = (c.temp(square, dtype) for _ in range(6))
    tolerance = None if dtype == torch.float32 else 0.03
    c.node("batch_gemm", [qi, ki], [scores], RIGHT)
    c.node(f"mult_{t}", [scores, factor], [scaled])
    c.node(f"softmax_fwd_{t}", [scaled], [probs], params("ns_Softmax_Params", dim=0))
    c.node("batch_gemm", [probs, vi], [c.output(out.detach().to(dtype), tolerance=tolerance)], NO)
    c.node("batch_gemm_dedx", [gi, vi], [d_probs], RIGHT)
    c.node("batch_gemm_dedw", [gi, probs], [c.output(vd.grad.to(dtype), tolerance=tolerance)], LEFT)
    c.node(f"softmax_bwd_{t}", [probs, d_probs], [d_scaled], params("ns_Softmax_Params", dim=0))
    c.node(f"mult_{t}", [d_scaled, factor], [d_scores])
    c.node("batch_gemm", [d_scores, ki], [c.output(qd.grad.to(dtype), tolerance=tolerance)], NO)
    c.node("batch_gemm", [d_scores, qi], [c.output(kd.grad.to(dtype), tolerance=tolerance)], LEFT)


for dtype in FLOATS:
    attention_step(f"attention_step_{TYPE_NAMES[dtype]}", dtype)
    attention_step(f"attention_step_{TYPE_NAMES[dtype]}_long", dtype, batch=1, heads=2, length=130, width=64)

sys.exit(suite.main())
