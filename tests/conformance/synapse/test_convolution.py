# SPDX-License-Identifier: Apache-2.0
"""Convolutions and their gradients, 2-D and 3-D, against PyTorch's autograd."""

import struct

import torch.nn.functional as F

from cases import *

suite = Suite()
ACTIVATION = struct.pack("<??HIQQ", False, False, 0, 1, 0, 0)


def triple(v, rank):
    return tuple(v) if isinstance(v, (tuple, list)) else (v,) * rank


def params(kernel, stride=1, pads=0, dilation=1, groups=1, same=None, activation=ACTIVATION):
    """Arguments in framework order (depth, height, width); pads are (before, after) pairs of each."""
    rank = len(kernel)
    stride, dilation = triple(stride, rank), triple(dilation, rank)
    pads = [pads] * rank if isinstance(pads, int) else list(pads)
    pads = [p if isinstance(p, (tuple, list)) else (p, p) for p in pads]
    k, s, d, p = (list(reversed(v)) for v in (kernel, stride, dilation, pads))
    if rank == 2:
        data = struct.pack("<4I4i2I", k[0], k[1], s[0], s[1], *p[0], *p[1], d[0], d[1]) + activation + struct.pack("<II", groups, 0)
    else:
        data = struct.pack("<3I3I6i3II", *k, *s, *p[0], *p[1], *p[2], *d, 0) + activation + struct.pack("<II", groups, 0)
    if same is not None:
        data += struct.pack("<I9I", int(same), *[0] * 9)
        data += b"\0" * (-len(data) % 8)
    return data


def channels_last(v):
    return v.movedim(1, -1).contiguous()


def weights_last(w):
    """torch's [K, C, ...] as [..., C, K]."""
    return w.movedim((0, 1), (-1, -2)).contiguous()


def padded(x, pads):
    """Negative amounts cut."""
    return F.pad(x, [a for p in reversed(pads) for a in p])


def add_cases(name, n, c, k, size, kernel, stride=1, pads=0, dilation=1, groups=1, same=False, dtypes=FLOATS):
    rank = len(kernel)
    conv = F.conv2d if rank == 2 else F.conv3d
    suffix = "" if rank == 2 else "3d"
    stride, dilation = triple(stride, rank), triple(dilation, rank)
    pair = [pads] * rank if isinstance(pads, int) else list(pads)
    pair = [p if isinstance(p, (tuple, list)) else (p, p) for p in pair]
    real = pair
    if same:
        real = []
        for i in range(rank):
            out = -(-size[i] // stride[i])
            total = max(0, (out - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - size[i])
            real.append((total // 2, total - total // 2))
    p = params(kernel, stride, pair, dilation, groups, True if same else None)
    for dtype in dtypes:
        x = rand(n, c, *size, dtype=dtype).double().requires_grad_()
        w = rand(k, c // groups, *kernel, dtype=dtype).double().requires_grad_()
        y = conv(padded(x, real), w, stride=stride, dilation=dilation, groups=groups)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        xs, ws, dys = channels_last(x.detach()).to(dtype), weights_last(w.detach()).to(dtype), channels_last(dy)
        t = f"{name}_{TYPE_NAMES[dtype]}"
        case = suite.case(f"forward_{t}")
        case.node("spatial_convolution" + suffix, [case.input(xs), case.input(ws)], [case.output(channels_last(y.detach()).to(dtype), declare=False)], p)
        case = suite.case(f"dedx_{t}")
        case.node("dedx" + suffix, [case.input(dys), case.input(ws)], [case.output(channels_last(x.grad).to(dtype))], p)
        case = suite.case(f"dedw_{t}")
        case.node("dedw" + suffix, [case.input(dys), case.input(xs)], [case.output(weights_last(w.grad).to(dtype), declare=False)], p)


add_cases("1x1", 2, 8, 16, (5, 7), (1, 1))
add_cases("3x3", 2, 8, 16, (9, 7), (3, 3), pads=1)
add_cases("3x3_f16", 2, 8, 16, (9, 7), (3, 3), pads=1, dtypes=(torch.float16,))
add_cases("3x3_valid", 1, 3, 4, (6, 6), (3, 3))
add_cases("7x7_s2", 2, 3, 16, (21, 18), (7, 7), stride=2, pads=3)
add_cases("s2_leftover", 2, 4, 6, (8, 10), (3, 3), stride=2, pads=1)
add_cases("s3", 1, 4, 6, (11, 13), (3, 2), stride=3)
add_cases("k1_s2", 2, 8, 4, (8, 7), (1, 1), stride=2)
add_cases("dilated", 2, 4, 6, (11, 12), (3, 3), pads=2, dilation=2)
add_cases("dilated_strided", 1, 4, 6, (13, 12), (3, 3), stride=2, pads=((2, 1), (0, 3)), dilation=(2, 3))
add_cases("rectangular", 2, 3, 5, (10, 6), (5, 2), stride=(2, 1), pads=((2, 2), (0, 1)))
add_cases("grouped", 2, 8, 12, (7, 6), (3, 3), pads=1, groups=4)
add_cases("grouped_strided", 2, 6, 4, (8, 7), (3, 3), stride=2, pads=1, groups=2)
add_cases("depthwise", 2, 6, 6, (7, 6), (3, 3), pads=1, groups=6)
add_cases("depthwise_multiplier", 1, 4, 8, (7, 6), (3, 3), pads=1, groups=4)
add_cases("negative_pad", 1, 4, 6, (9, 9), (3, 3), pads=((-1, 1), (0, -2)))
add_cases("same", 2, 4, 6, (8, 9), (3, 4), same=True)
add_cases("same_s2", 2, 4, 6, (8, 9), (3, 3), stride=2, same=True)
add_cases("same_dilated", 1, 4, 6, (8, 9), (3, 3), stride=2, dilation=2, same=True)
add_cases("big_pad", 1, 2, 3, (3, 3), (3, 3), pads=4)

add_cases("3d", 2, 4, 6, (5, 6, 7), (3, 3, 3), pads=1)
add_cases("3d_1x1x1", 2, 4, 6, (3, 4, 5), (1, 1, 1))
add_cases("3d_strided", 2, 4, 6, (6, 7, 8), (3, 3, 3), stride=2, pads=1)
add_cases("3d_depth_stride", 1, 3, 5, (9, 5, 6), (2, 3, 1), stride=(3, 1, 2))
add_cases("3d_dilated", 1, 3, 4, (9, 8, 7), (3, 2, 3), pads=((2, 1), (0, 0), (1, 2)), dilation=(2, 3, 1))
add_cases("3d_grouped", 2, 4, 6, (5, 6, 7), (3, 3, 3), stride=(2, 1, 1), pads=1, groups=2)
add_cases("3d_same", 1, 3, 4, (5, 6, 7), (3, 2, 3), stride=2, same=True)
add_cases("3d_negative_pad", 1, 3, 4, (7, 6, 6), (3, 3, 3), pads=((-1, 0), (1, -1), (0, 0)))

# bias, the added tensor, relu; other layouts; a narrow convolution with an f32 result.
for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    x, w, bias = rand(2, 4, 6, 7, dtype=dtype), rand(5, 4, 3, 3, dtype=dtype), rand(5, dtype=dtype)
    y = F.conv2d(x.double(), w.double(), bias.double(), padding=1)
    cin = rand(*y.shape, dtype=dtype)
    xs, ws = channels_last(x), weights_last(w)
    c = suite.case(f"bias_{t}")
    c.node("spatial_convolution", [c.input(xs), c.input(ws), c.input(bias)], [c.output(channels_last(y).to(dtype))], params((3, 3), pads=1))
    c = suite.case(f"bias_cin_{t}")
    c.node("spatial_convolution", [c.input(xs), c.input(ws), c.input(bias), c.input(channels_last(cin))],
           [c.output(channels_last(y + cin.double()).to(dtype))], params((3, 3), pads=1))
    relu = struct.pack("<??HIQQ", True, False, 0, 1, 0, 0)
    c = suite.case(f"cin_relu_{t}")
    no_bias = F.conv2d(x.double(), w.double(), padding=1)
    c.node("spatial_convolution", [c.input(xs), c.input(ws), None, c.input(channels_last(cin))],
           [c.output(channels_last(F.relu(no_bias + cin.double())).to(dtype))], params((3, 3), pads=1, activation=relu))
    c = suite.case(f"channels_first_{t}")
    c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(no_bias.to(dtype))], params((3, 3), pads=1),
           layouts=["WHCN", "SRCK"], layout=["WHCN"])
    c = suite.case(f"to_f32_{t}")
    c.node("spatial_convolution", [c.input(xs), c.input(ws)], [c.output(channels_last(no_bias).float())], params((3, 3), pads=1))
    xd, wd = x.double().requires_grad_(), w.double().requires_grad_()
    yd = F.conv2d(xd, wd, padding=1)
    dy = rand(*yd.shape, dtype=dtype)
    yd.backward(dy.double())
    c = suite.case(f"dedx_channels_first_{t}")
    c.node("dedx", [c.input(dy), c.input(w)], [c.output(xd.grad.to(dtype))], params((3, 3), pads=1), layouts=["WHCN", "SRCK"], layout=["WHCN"])
    c = suite.case(f"dedx_shape_tensor_{t}")
    c.node("dedx", [c.input(channels_last(dy)), c.input(ws), c.shape(tuple(xs.shape))],
           [c.output(channels_last(xd.grad).to(dtype), declare=False)], params((3, 3), pads=1))

x, w = rand(1, 6, 6, 4), rand(3, 3, 4, 5)
dy = rand(1, 4, 4, 5)
bad = lambda name: suite.case(f"bad_{name}")
c = bad("kernel_larger")
c.node("spatial_convolution", [c.input(rand(1, 2, 2, 4)), c.input(w)], [c.output(rand(1, 1, 1, 5))], params((3, 3)), name="conv")
c.fails("node 'conv' (spatial_convolution)", "kernel (3 with its dilation) is larger than the padded input (2)", "height")
c = bad("kernel_differs")
c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(dy)], params((3, 2))).fails("parameters' kernel is 2 along the width", "weights have 3")
c = bad("channels")
c.node("spatial_convolution", [c.input(x), c.input(rand(3, 3, 3, 5))], [c.output(dy)], params((3, 3))).fails("the data have 4 channels, the weights 3")
c = bad("result")
c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(rand(1, 5, 4, 5))], params((3, 3))).fails("output 0 (Y)", "{5, 4, 5, 1}", "{5, 4, 4, 1}")
c = bad("stride_zero")
c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(dy)], params((3, 3), stride=0)).fails("stride's", "is 0")
c = bad("groups")
c.node("spatial_convolution", [c.input(x), c.input(rand(3, 3, 2, 5))], [c.output(dy)], params((3, 3), groups=2)).fails("5 result channels", "2 groups")
c = bad("rank")
c.node("spatial_convolution", [c.input(rand(6, 6, 4)), c.input(w)], [c.output(dy)], params((3, 3))).fails("input 0 (X) has rank 3, must have 4 (CWHN)")
c = bad("params_size")
c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(dy)], params((3, 3))[:36]).fails("parameters of 36 bytes", "40")
c = bad("no_params")
c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(dy)]).fails("needs parameters (synConvolutionParams")
c = bad("dedx_sizes")
c.node("dedx", [c.input(dy), c.input(w)], [c.output(rand(1, 7, 6, 4))], params((3, 3))).fails("Y has sizes {5, 4, 4, 1}", "{5, 4, 5, 1}")
c = bad("dedx_no_sizes")
c.node("dedx", [c.input(dy), c.input(w)], [c.output(rand(1, 6, 6, 4), declare=False)], params((3, 3))).fails("output 0 (dX) needs its sizes")
c = bad("dedw_sizes")
c.node("dedw", [c.input(dy), c.input(x)], [c.output(rand(3, 2, 4, 5))], params((3, 3))).fails("output 0 (dW)")
c = bad("layout")
c.node("spatial_convolution", [c.input(x), c.input(w)], [c.output(dy)], params((3, 3)), layouts=["WHXN"]).fails("layout 'WHXN'", "CWHN")

# fp8 operands by numbers that both formats hold; the scaled sum is rounded once.
F8 = {"hf8": 1 << 13, "f8": 1 << 14}


def fp8_case(name, form, dtype, scales, bias, bias_dtype=None, **options):
    x, w = (rand(*s, dtype=torch.int8, low=-3, high=4).to(dtype) for s in ((2, 4, 7, 6), (5, 4 // options.get("groups", 1), 3, 3)))
    b = rand(5 if bias is None else bias, dtype=bias_dtype or dtype)
    y = F.conv2d(x.double(), w.double(), stride=options.get("stride", 1), padding=options.get("pads", 0), groups=options.get("groups", 1))
    c = suite.case(name)
    left, right = channels_last(x), weights_last(w)
    narrow = [c.temp(v.shape, F8[form]) for v in (left, right)]
    for v, n in zip((left, right), narrow):
        c.node(f"convert_to_fp8_{TYPE_NAMES[dtype]}", [c.input(v)], [n])
    inputs = [*narrow, None if bias is None else c.input(b), *(None if s is None else c.input(torch.tensor([s])) for s in scales)]
    for s in scales:
        y = y * (1 if s is None else s)
    y = y if bias is None else y + b.double()[:, None, None]
    return c.node(f"conv2d_fp8_{TYPE_NAMES[dtype]}", inputs, [c.output(channels_last(y).to(dtype), declare=False)], params((3, 3), **options))


for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    for form in F8:
        fp8_case(f"fp8_{form}_{t}", form, dtype, (), None)
        fp8_case(f"fp8_{form}_{t}_scaled", form, dtype, (0.3, 1.7), 5, stride=2, pads=1)
    fp8_case(f"fp8_{t}_one_scale", "hf8", dtype, (None, 0.7), None, pads=1)
    fp8_case(f"fp8_{t}_bias", "hf8", dtype, (), 5)
fp8_case("fp8_wide_bias", "hf8", torch.bfloat16, (2.0, 0.1), 5, bias_dtype=torch.float32)
c = suite.case("bad_fp8_scale")
x, w = rand(1, 4, 4, 2), rand(3, 3, 2, 3)
c.node("conv2d_fp8_f32", [c.input(x), c.input(w), None, c.input(rand(2))], [c.output(rand(1, 2, 2, 3))], params((3, 3))).fails("input 3 (scale of X) of more than one element")
c = suite.case("bad_fp8_reserved")
c.node("conv2d_fp8_f32", [c.input(x), c.input(w), None, None, None, c.input(rand(1))], [c.output(rand(1, 2, 2, 3))], params((3, 3))).fails("input 5 (reserved)")

sys.exit(suite.main())
