# SPDX-License-Identifier: Apache-2.0
"""Losses, optimisers, attention and random numbers: what a training step has beside its layers."""

import math

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()
I32 = torch.int32


def case(name, guid, inputs, outputs, p=b"", tolerance=None, declare=True):
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs],
           [None if v is None else c.output(v, tolerance=tolerance, declare=declare) for v in outputs], p)
    return c


def leaf(v):
    return v.double().requires_grad_()


def f32(*values):
    return [v.detach().float() for v in values]


REDUCTIONS = ("mean", "sum", "none")
for dtype in FLOATS:
    t = TYPE_NAMES[dtype]

    # Cross entropy: logits [batch, classes].
    logits, labels = rand(9, 7, dtype=dtype, low=-3, high=3), rand(9, dtype=I32, low=0, high=7)
    x = leaf(logits)
    logs = torch.log_softmax(x, 1)
    for mode in REDUCTIONS:
        loss = F.nll_loss(logs, labels.long(), reduction=mode).reshape(-1)
        dx, = torch.autograd.grad(loss.sum(), x, retain_graph=True)
        kind = "NO_REDUCTION" if mode == "none" else mode.upper()
        p = params("ns_SoftmaxCrossEntropy_Params", mode="CROSS_ENTROPY_MODE_" + kind, batchSize=9)
        name = f"{t}_{mode}"
        case(f"softmax_cross_entropy_{name}", f"softmax_cross_entropy_fwd_{t}", [logits, labels], [loss.detach().to(dtype), logs.detach().to(dtype)], p)
        case(f"softmax_cross_entropy_bwd_{name}", f"softmax_cross_entropy_bwd_{t}", [logs.detach().to(dtype), labels], [dx.to(dtype)], p,
             tolerance=None if dtype == torch.float32 else 2e-2)
    probabilities = torch.softmax(rand(9, 7), 1).to(dtype)
    loss = -(probabilities.double() * logs).sum() / 9
    case(f"softmax_cross_entropy_{t}_dense", f"softmax_cross_entropy_fwd_{t}", [logits, probabilities], [loss.detach().reshape(1).to(dtype)],
         params("ns_SoftmaxCrossEntropy_ParamsV4", mode="CROSS_ENTROPY_MODE_MEAN", batchSize=9))
    for size, extra in (("v2", dict(axis=0)), ("v3", {}), ("v5", dict(is_approximation=1))):
        structure = f"ns_SoftmaxCrossEntropy_Params{size.upper()}"
        case(f"softmax_cross_entropy_{t}_{size}", f"softmax_cross_entropy_fwd_{t}", [logits, labels],
             [F.nll_loss(logs, labels.long()).detach().reshape(1).to(dtype)], params(structure, mode="CROSS_ENTROPY_MODE_MEAN", batchSize=9, **extra))

    # Negative log likelihood.
    weight = rand(7, low=0.2, high=2)
    ignored = labels.clone()
    ignored[2] = 3
    for mode in REDUCTIONS:
        for w, ignore in ((None, -100), (weight, 3)):
            x = leaf(logs.detach().to(dtype))
            loss = F.nll_loss(x, ignored.long(), w.double() if w is not None else None, ignore_index=ignore, reduction=mode).reshape(-1)
            dy = rand(*loss.shape, dtype=dtype)
            loss.backward(dy.double())
            total = sum((w[l].item() if w is not None else 1.0) for l in ignored.tolist() if l != ignore)
            p = params("ns_NLLLossKernel_ParamsOptionalIgnoreIndex", mode="NLL_LOSS_MODE_" + mode.upper(), ignoreIndexValue=ignore)
            name = f"{t}_{mode}_{'weight' if w is not None else 'plain'}"
            value = x.detach().to(dtype)
            case(f"nll_loss_{name}", f"nll_loss_fwd_{t}", [value, ignored, w], [loss.detach().to(dtype)], p)
            case(f"cnll_loss_{name}", f"cnll_loss_fwd_{t}", [value, ignored, w], [loss.detach().to(dtype), torch.tensor([total])], p)
            case(f"nll_loss_bwd_{name}", f"nll_loss_bwd_{t}", [dy, ignored, w], [x.grad.to(dtype)], p)
            case(f"cnll_loss_bwd_{name}", f"cnll_loss_bwd_{t}", [dy, value, ignored, w], [x.grad.to(dtype)], p)
    x, where = leaf(rand(2, 4, 3, 5, dtype=dtype)), rand(2, 3, 5, dtype=I32, low=0, high=4)
    case(f"nll_loss_{t}_2d", f"nll_loss_fwd_{t}", [x.detach().to(dtype), where], [F.nll_loss(x, where.long()).detach().reshape(1).to(dtype)],
         params("ns_NLLLossKernel_Params", mode="NLL_LOSS_MODE_MEAN"))

    # Distances.
    value, target = rand(5, 7, dtype=dtype, low=-2, high=2), rand(5, 7, dtype=dtype, low=-2, high=2)
    for mode in REDUCTIONS:
        for guid, structure, more, function in (
                ("mse_loss", "ns_MSELossKernel_Params", {}, F.mse_loss), ("l1_loss", "ns_L1LossKernel_Params", {}, F.l1_loss),
                ("smooth_l1_loss", "ns_SmoothL1LossKernel_Params", dict(beta=0.7), lambda a, b, reduction: F.smooth_l1_loss(a, b, beta=0.7, reduction=reduction)),
                ("huber_loss", "ns_HuberLossKernel_Params", dict(delta=0.7), lambda a, b, reduction: F.huber_loss(a, b, delta=0.7, reduction=reduction))):
            x = leaf(value)
            loss = function(x, target.double(), reduction=mode)
            loss = loss.reshape(1) if mode != "none" else loss
            dy = rand(*loss.shape, dtype=dtype)
            loss.backward(dy.double())
            p = params(structure, mode=REDUCTIONS.index(mode), **more)
            case(f"{guid}_{t}_{mode}", f"{guid}_fwd_{t}", [value, target], [loss.detach().to(dtype)], p)
            case(f"{guid}_bwd_{t}_{mode}", f"{guid}_bwd_{t}", [dy, value, target], [x.grad.to(dtype)], p)
        for logarithmic in (0, 1):
            x, goal = torch.log_softmax(value.double(), 1).to(dtype), torch.softmax(target.double(), 1)
            goal = (goal.log() if logarithmic else goal).to(dtype)
            loss = F.kl_div(x.double(), goal.double(), reduction=mode, log_target=bool(logarithmic))
            case(f"kl_div_{t}_{mode}_{logarithmic}", f"kl_div_{t}", [x, goal], [(loss.reshape(1) if mode != "none" else loss).to(dtype)],
                 params("ns_KLDivParams_Params", mode={"sum": 0, "mean": 1, "none": 2}[mode], log_target=logarithmic))
        # Binary cross entropy of probabilities and of logits.
        kind = "CROSS_ENTROPY_MODE_" + ("NO_REDUCTION" if mode == "none" else mode.upper())
        truth, w, pw = rand(5, 7, dtype=dtype, low=0, high=1), rand(5, 7, dtype=dtype, low=0.5, high=2), rand(7, dtype=dtype, low=0.5, high=3)
        for name, x0, extra in (("plain", rand(5, 7, dtype=dtype, low=0.05, high=0.95), ()), ("logits", value, ()), ("weight", value, (w,)), ("positive", value, (w, pw))):
            x = leaf(x0)
            args = dict(weight=extra[0].double() if extra else None, reduction=mode)
            if len(extra) > 1:
                args["pos_weight"] = pw.double()
            loss = (F.binary_cross_entropy if name == "plain" else F.binary_cross_entropy_with_logits)(x, truth.double(), **args)
            loss = loss.reshape(1) if mode != "none" else loss
            dy = rand(*loss.shape, dtype=dtype)
            loss.backward(dy.double())
            p = params("ns_BinaryCrossEntropy_ParamsOptionalPosWeight", isWeightsUsed=bool(extra), mode=kind,
                       binaryCrossEntropyWithoutSigmoid=name == "plain", posMode=int(len(extra) > 1))
            case(f"binary_cross_entropy_{t}_{mode}_{name}", f"binary_cross_entropy_fwd_{t}", [x0, truth, *extra], [loss.detach().to(dtype)], p)
            operands = [x0, truth, extra[0] if extra else None, -dy] + ([pw] if len(extra) > 1 else [])
            case(f"binary_cross_entropy_bwd_{t}_{mode}_{name}", f"binary_cross_entropy_bwd_{t}", operands, [x.grad.to(dtype)], p)

    # Attention: [batch, heads, length, width].
    q, k, v = rand(2, 3, 5, 8, dtype=dtype), rand(2, 3, 6, 8, dtype=dtype), rand(2, 3, 6, 4, dtype=dtype)
    added, chosen = rand(2, 1, 5, 6, dtype=dtype), rand(1, 1, 5, 6, dtype=torch.bool) | (torch.arange(6) == 0)
    loose = None if dtype == torch.float32 else 2e-2
    for name, mask, causal in (("plain", None, False), ("added", added, False), ("chosen", chosen, False), ("causal", None, True)):
        leaves = [leaf(z) for z in (q, k, v)]
        s = leaves[0] @ leaves[1].mT * 0.3
        if mask is not None:
            s = s + mask.double() if mask.is_floating_point() else s.masked_fill(~mask, -1e30)
        if causal:
            s = s.masked_fill(~torch.ones(5, 6, dtype=torch.bool).tril(), -1e30)
        probabilities = torch.softmax(s, -1)
        out = probabilities @ leaves[2]
        dy = rand(*out.shape, dtype=dtype)
        out.backward(dy.double())
        grads = [z.grad.to(dtype) for z in leaves]
        p = params("ns_Sdpa_ParamsV3", scale=0.3, is_causal=causal)
        largest = s.amax(-1, keepdim=True)
        inverse = 1 / (s - largest).exp().sum(-1, keepdim=True)
        m, linv = f32(largest, inverse)
        case(f"sdpa_{t}_{name}", f"sdpa_fwd_{t}", [q, k, v, mask], [out.detach().to(dtype), probabilities.detach().to(dtype)], p)
        case(f"sdpa_bwd_{t}_{name}", f"sdpa_bwd_{t}", [dy, q, k, v, probabilities.detach().to(dtype)], grads, p, tolerance=loose)
        case(f"sdpa_recomp_{t}_{name}", f"sdpa_recomp_fwd_{t}", [q, k, v, mask], [out.detach().to(dtype), m, linv], p, tolerance=loose)  # Scores are bf16.
        case(f"sdpa_recomp_bwd_{t}_{name}", f"sdpa_recomp_bwd_{t}", [dy, q, k, v, mask, m, linv], grads, p, tolerance=loose)

    x, dy = rand(2, 3, 5, 8, dtype=dtype), rand(2, 3, 5, 8, dtype=dtype)
    angles = rand(9, 4, low=0, high=3)
    ids = rand(2, 5, dtype=I32, low=0, high=9)
    for mode in ("BLOCKWISE", "PAIRWISE"):
        spread = torch.cat([angles, angles], 1) if mode == "BLOCKWISE" else angles.repeat_interleave(2, 1)
        sin, cos = spread.sin().to(dtype), spread.cos().to(dtype)
        p = params("ns_RoPESt2_ParamsV2", offset=2, mode="ROTARY_POS_EMBEDDING_MODE_" + mode)

        def turned(v):
            if mode == "BLOCKWISE":
                return torch.cat([-v[..., 4:], v[..., :4]], -1)
            return torch.stack([-v[..., 1::2], v[..., 0::2]], -1).flatten(-2)
        for name, rows, operands in (("offset", slice(2, 7), []), ("ids", ids.long(), [ids])):
            s, co = sin.double()[rows], cos.double()[rows]
            if name == "ids":
                s, co = s.unsqueeze(1), co.unsqueeze(1)
            z = leaf(x)
            y = z * co + turned(z) * s
            y.backward(dy.double())
            case(f"rotary_{t}_{mode}_{name}", f"rotary_pos_embedding_fwd_{t}", [x, sin, cos, *operands], [y.detach().to(dtype)], p)
            case(f"rotary_bwd_{t}_{mode}_{name}", f"rotary_pos_embedding_bwd_{t}", [dy, sin, cos, *operands], [z.grad.to(dtype)], p)

# Optimisers against torch.optim, two steps.
for nesterov in (False, True):
    for damp in (0.0, 0.3):
        if nesterov and damp:
            continue
        weight = rand(5, 7).double().requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, dampening=damp, weight_decay=0.01, nesterov=nesterov)
        momentum = torch.zeros(5, 7)
        for step in range(2):
            before, gradient = weight.detach().float().clone(), rand(5, 7)
            weight.grad = gradient.double()
            optimizer.step()
            after = optimizer.state[weight]["momentum_buffer"].float()
            p = params("ns_OptimizerSGD_Params", wd=0.01, mom=0.9, damp=damp, nesterov=nesterov)
            operands = [gradient, before, momentum, torch.tensor([step], dtype=I32), torch.tensor([0.1])]
            name = f"optimizer_sgd_{int(nesterov)}_{damp}_{step}"
            new = weight.detach().float()
            case(name, "optimizer_sgd_bwd_f32", operands, [new, after], p)
            case(name + "_copy", "optimizer_sgd_bwd_f32", operands + [torch.tensor([0.9])], [new, new.bfloat16(), after],
                 params("ns_OptimizerSGD_Params", wd=0.01, mom=0.5, damp=damp, nesterov=nesterov))
            momentum = after.clone()
gradient, weight = rand(5, 7), rand(5, 7)
case("optimizer_sgd_short", "optimizer_sgd_bwd_f32", [gradient, weight, torch.tensor([0.1])], [weight - 0.1 * gradient], params("ns_OptimizerSGD_Params"))
weight = rand(5, 7).double().requires_grad_()
optimizer = torch.optim.Adagrad([weight], lr=0.1, lr_decay=0.05, weight_decay=0.01, eps=1e-6)
squares = torch.zeros(5, 7)
for epoch in range(2):
    before, gradient = weight.detach().float().clone(), rand(5, 7)
    weight.grad = gradient.double()
    optimizer.step()
    after = optimizer.state[weight]["sum"].float().clone()
    case(f"optimizer_adagrad_{epoch}", "optimizer_adagrad_bwd_f32", [gradient, before, squares, torch.tensor([epoch], dtype=I32), torch.tensor([0.1])],
         [weight.detach().float(), after], params("ns_OptimizerAdagrad_Params", wd=0.01, lrd=0.05, eps=1e-6))
    squares = after

x = rand(5, 7)
case("bad_labels", "softmax_cross_entropy_fwd_f32", [x, torch.zeros(4, dtype=I32)], [rand(1)], params("ns_SoftmaxCrossEntropy_Params")).fails("labels of sizes")
case("bad_mode", "mse_loss_fwd_f32", [x, x], [rand(1)], params("ns_MSELossKernel_Params", mode=3)).fails("reduction mode 3")
case("bad_target", "mse_loss_fwd_f32", [x, rand(7)], [rand(1)], params("ns_MSELossKernel_Params")).fails("the target")
case("bad_weights", "binary_cross_entropy_fwd_f32", [x, x], [rand(1)], params("ns_BinaryCrossEntropy_Params", isWeightsUsed=True)).fails("isWeightsUsed")
case("bad_sgd", "optimizer_sgd_bwd_f32", [x, rand(5, 6), rand(1)], [rand(5, 6)], params("ns_OptimizerSGD_Params")).fails("different sizes")
case("bad_sgd_rate", "optimizer_sgd_bwd_f32", [x, x, rand(2)], [x], params("ns_OptimizerSGD_Params")).fails("one element")
case("bad_sdpa", "sdpa_fwd_f32", [rand(5, 8), rand(6, 7), rand(6, 4)], [rand(5, 4), rand(5, 6)], params("ns_Sdpa_Params")).fails("different widths")
case("bad_sdpa_flags", "sdpa_fwd_f32", [rand(5, 8), rand(6, 8), rand(6, 4)], [rand(5, 4), rand(5, 6)], params("ns_Sdpa_ParamsV3", flags=1)).fails("flags 1")
case("bad_rotary", "rotary_pos_embedding_fwd_f32", [rand(5, 7), rand(5, 7), rand(5, 7)], [x]).fails("even width")

sys.exit(suite.main())
