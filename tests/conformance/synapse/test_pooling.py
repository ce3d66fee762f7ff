# SPDX-License-Identifier: Apache-2.0
"""Pooling, 2-D and 3-D, forward and backward, against PyTorch."""

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()


def case(name, guid, inputs, outputs, p=b"", layouts=None, tolerance=None, layout=None):
    c = suite.case(name)
    c.node(guid, [v if isinstance(v, tuple) else None if v is None else c.input(v) for v in inputs],
           [None if v is None else c.output(v, tolerance=tolerance) for v in outputs], p, layouts=layouts, layout=layout)
    return c


def to_nhwc(x):
    return x.movedim(1, -1).contiguous()


def window(structure, kernel, stride, pads, dilation=(1, 1), convention="POOLING_CONVENTION_VALID", **more):
    """kernel, stride, pads, dilation: (h, w) or (d, h, w); pads alike on both sides."""
    members = dict(kernel_w=kernel[-1], kernel_h=kernel[-2], stride_w=stride[-1], stride_h=stride[-2], dilation_w=dilation[-1],
                   dilation_h=dilation[-2], pad_w_begin=pads[-1], pad_w_end=pads[-1], pad_h_begin=pads[-2], pad_h_end=pads[-2],
                   pooling_convention=convention)
    if len(kernel) == 3:
        members.update(kernel_d=kernel[0], stride_d=stride[0], dilation_d=dilation[0], pad_d_begin=pads[0], pad_d_end=pads[0])
    return params(structure, **members, **more)


def taps(indices, size, kernel, stride, pads, dilation):
    """PyTorch's flat positions as positions inside the windows."""
    out = indices.shape[2:]
    tap = torch.zeros_like(indices)
    rest, parts = indices, []
    for s in reversed(size):
        parts.insert(0, rest % s)
        rest = rest // s
    for d, part in enumerate(parts):
        shape = [1] * indices.dim()
        shape[2 + d] = out[d]
        origin = (torch.arange(out[d]) * stride[d] - pads[d]).reshape(shape)
        tap = tap * kernel[d] + (part - origin) // dilation[d]
    return tap


MAX2D = (
    ("plain", (7, 9), (2, 2), (2, 2), (0, 0), (1, 1), False), ("overlap", (7, 9), (3, 3), (2, 2), (1, 1), (1, 1), False),
    ("one", (5, 6), (3, 2), (1, 1), (1, 0), (1, 1), False), ("dilated", (11, 9), (3, 2), (2, 1), (1, 1), (2, 3), False),
    ("ceil", (7, 10), (3, 3), (2, 2), (0, 1), (1, 1), True), ("sparse", (9, 9), (2, 2), (4, 3), (0, 0), (1, 1), False))
for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    for name, size, kernel, stride, pads, dilation, ceil in MAX2D:
        convention = "POOLING_CONVENTION_FULL_PYTORCH" if ceil else "POOLING_CONVENTION_VALID"
        p = window("ns_SpatialReduction_Params", kernel, stride, pads, dilation, convention)
        # All different, so that every window has one maximum in bf16 too.
        count = 2 * 3 * size[0] * size[1]
        x = (torch.randperm(count, generator=torch.Generator().manual_seed(3)) % 251 - 120).reshape(2, 3, *size).to(dtype)
        leaf = x.double().requires_grad_()
        y, indices = F.max_pool2d(leaf, kernel, stride, pads, dilation, ceil, return_indices=True)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        tap = taps(indices, size, kernel, stride, pads, dilation)
        retained = torch.uint8 if dtype == torch.float32 else torch.int16
        first = [to_nhwc(v) for v in (tap.to(retained), y.detach().to(dtype))]
        case(f"maxpool_2d_{t}_{name}", f"maxpool_2d_fwd_{t}", [to_nhwc(x)], first, p)
        case(f"maxpool_2d_{t}_{name}_whcn", f"maxpool_2d_fwd_{t}", [x], [tap.to(retained), y.detach().to(dtype)], p, layouts=["WHCN"])
        dx = to_nhwc(leaf.grad.to(dtype))
        case(f"maxpool_2d_bwd_{t}_{name}", f"maxpool_2d_bwd_{t}", [to_nhwc(dy), first[0]], [dx], p)
        case(f"pt_maxpool_2d_{t}_{name}", f"pt_maxpool_2d_fwd_{t}", [to_nhwc(x)], [first[1], to_nhwc(indices)], p)
        case(f"pt_maxpool_2d_bwd_{t}_{name}", f"pt_maxpool_2d_bwd_{t}", [to_nhwc(dy), to_nhwc(x), to_nhwc(indices)], [dx], p)
    case(f"maxpool_2d_{t}_value_only", f"maxpool_2d_fwd_{t}", [to_nhwc(x)], [None, first[1]], p)

    for name, size, kernel, stride, pads in (("plain", (5, 6, 7), (2, 2, 3), (2, 2, 2), (0, 0, 1)), ("overlap", (4, 5, 6), (3, 3, 3), (1, 2, 2), (1, 1, 1))):
        p = window("ns_SpatialReduction3D_Params", kernel, stride, pads, (1, 1, 1))
        count = 2 * 2 * size[0] * size[1] * size[2]
        x = (torch.randperm(count, generator=torch.Generator().manual_seed(4)) % 253 - 120).reshape(2, 2, *size).to(dtype)
        leaf = x.double().requires_grad_()
        y, indices = F.max_pool3d(leaf, kernel, stride, pads, return_indices=True)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        tap = taps(indices, size, kernel, stride, pads, (1, 1, 1)).to(torch.uint8)
        case(f"maxpool_3d_{t}_{name}", f"maxpool_3d_fwd_{t}", [to_nhwc(x)], [to_nhwc(tap), to_nhwc(y.detach().to(dtype))], p)
        case(f"maxpool_3d_bwd_{t}_{name}", f"maxpool_3d_bwd_{t}", [to_nhwc(dy), to_nhwc(tap)], [to_nhwc(leaf.grad.to(dtype))], p)

    for name, size, kernel, stride, pads, ceil, include, divisor in (
            ("plain", (7, 9), (2, 2), (2, 2), (0, 0), False, False, None), ("overlap", (7, 9), (3, 3), (2, 2), (1, 1), False, False, None),
            ("include", (7, 9), (3, 2), (2, 2), (1, 1), False, True, None), ("ceil", (7, 10), (3, 3), (2, 2), (1, 1), True, True, None),
            ("ceil_exclude", (8, 10), (3, 3), (2, 3), (0, 1), True, False, None), ("divisor", (7, 9), (3, 3), (1, 2), (1, 1), False, True, 5),
            ("sparse", (9, 8), (2, 2), (4, 3), (0, 0), False, True, None)):
        convention = "POOLING_CONVENTION_FULL_PYTORCH" if ceil else "POOLING_CONVENTION_VALID"
        structure = "ns_AveragePoolingWithDivisorOverride_Params" if divisor else "ns_AveragePooling_Params"
        more = dict(divisorOverride=divisor) if divisor else {}
        p = window(structure, kernel, stride, pads, convention=convention, includePadding=int(include), **more)
        x = rand(2, 3, *size, dtype=dtype)
        leaf = x.double().requires_grad_()
        y = F.avg_pool2d(leaf, kernel, stride, pads, ceil, include, divisor)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        case(f"avg_pool_2d_{t}_{name}", f"avg_pool_2d_fwd_{t}", [to_nhwc(x)], [to_nhwc(y.detach().to(dtype))], p)
        case(f"avg_pool_2d_bwd_{t}_{name}", f"avg_pool_2d_bwd_{t}", [to_nhwc(dy)], [to_nhwc(leaf.grad.to(dtype))], p)

    for name, size, kernel, stride, pads, include in (("plain", (5, 6, 7), (2, 2, 3), (2, 2, 2), (0, 0, 1), True), ("exclude", (4, 5, 6), (3, 3, 3), (1, 2, 2), (1, 1, 1), False)):
        p = window("ns_AveragePooling3D_Params", kernel, stride, pads, (1, 1, 1), includePadding=int(include))
        x = rand(2, 2, *size, dtype=dtype)
        leaf = x.double().requires_grad_()
        y = F.avg_pool3d(leaf, kernel, stride, pads, False, include)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        case(f"avg_pool_3d_{t}_{name}", f"avg_pool_3d_fwd_{t}", [to_nhwc(x)], [to_nhwc(y.detach().to(dtype))], p)
        case(f"avg_pool_3d_bwd_{t}_{name}", f"avg_pool_3d_bwd_{t}", [to_nhwc(dy)], [to_nhwc(leaf.grad.to(dtype))], p)

    for size, out in (((6, 8), (3, 2)), ((7, 5), (3, 4)), ((5, 5), (1, 1))):
        x = rand(2, 3, *size, dtype=dtype)
        leaf = x.double().requires_grad_()
        y = F.adaptive_avg_pool2d(leaf, out)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        name = f"{size[0]}x{size[1]}_{out[0]}x{out[1]}"
        p = params("ns_AdaptiveAvgPool_Params", outputHeight=out[0], outputWidth=out[1])
        case(f"adaptive_avg_pool_2d_{t}_{name}", f"adaptive_avg_pool_2d_fwd_{t}", [to_nhwc(x)], [to_nhwc(y.detach().to(dtype))], p)
        case(f"adaptive_avg_pool_2d_bwd_{t}_{name}", f"adaptive_avg_pool_2d_bwd_{t}", [to_nhwc(dy)], [to_nhwc(leaf.grad.to(dtype))])

# SAME: ceil(size / stride) windows, the padding split with the rest behind. FULL: a last window may hold padding only.
x = rand(1, 2, 7, 6)
padded = F.pad(x, (0, 1, 1, 1), value=-10)
p = window("ns_SpatialReduction_Params", (3, 3), (2, 2), (0, 0), convention="POOLING_CONVENTION_SAME")
case("maxpool_2d_same", "maxpool_2d_fwd_f32", [to_nhwc(x)], [None, to_nhwc(F.max_pool2d(padded, 3, 2))], p)
p = window("ns_SpatialReduction_Params", (2, 2), (2, 2), (0, 0), convention="POOLING_CONVENTION_FULL")
case("maxpool_2d_full", "maxpool_2d_fwd_f32", [to_nhwc(x)], [None, to_nhwc(F.max_pool2d(x, 2, 2, ceil_mode=True))], p)
p = window("ns_SpatialReduction_Params", (2, 2), (2, 2), (0, 0))
i8 = rand(1, 2, 6, 6, dtype=torch.int8, low=-100, high=100)
case("maxpool_2d_i8", "maxpool_2d_fwd_i8", [to_nhwc(i8)], [None, to_nhwc(F.max_pool2d(i8.float(), 2).to(torch.int8))], p)

# The operand's sizes by a shape tensor.
c = suite.case("avg_pool_2d_bwd_shape")
leaf = rand(1, 2, 7, 7).double().requires_grad_()
y = F.avg_pool2d(leaf, 2, 2)
dy = rand(*y.shape)
y.backward(dy.double())
c.node("avg_pool_2d_bwd_f32", [c.input(to_nhwc(dy)), c.shape((1, 7, 7, 2))], [c.output(to_nhwc(leaf.grad.float()), declare=False)],
       window("ns_AveragePooling_Params", (2, 2), (2, 2), (0, 0)))

# Resampling.
for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    x = rand(2, 3, 5, 7, dtype=dtype)
    for name, mode, coordinates, nearest, function in (
            ("nearest", "NEAREST", "ASYMMETRIC_MODE", "FLOOR", dict(mode="nearest")),
            ("linear", "LINEAR", "PYTORCH_HALF_PIXEL_MODE", "ROUND_DEFAULT", dict(mode="bilinear", align_corners=False)),
            ("corners", "LINEAR", "ALIGN_CORNERS_MODE", "ROUND_DEFAULT", dict(mode="bilinear", align_corners=True))):
        y = F.interpolate(x.double(), (8, 13), **function).to(dtype)
        p = params("ns_ResizeKernel_Params", mode="RESIZE_INTER_" + mode, coordTransMode=coordinates, nearestMode=nearest, size1=13, size2=8)
        case(f"resize_{t}_{name}", f"resize_fwd_{t}", [to_nhwc(x)], [to_nhwc(y)], p)
        case(f"resize_{t}_{name}_whcn", f"resize_fwd_{t}", [x], [y], p, layouts=["WHCN"], layout=["WHCN"])
    y = F.interpolate(x.double(), scale_factor=2, mode="nearest").to(dtype)
    case(f"resize_{t}_scales", f"resize_fwd_{t}", [to_nhwc(x)], [to_nhwc(y)],
         params("ns_ResizeKernel_Params", coordTransMode="ASYMMETRIC_MODE", nearestMode="FLOOR", useScales=True, scaleDim1=2.0, scaleDim2=2.0))
case("bad_resize", "resize_fwd_f32", [rand(1, 4, 4, 1)], [rand(1, 4, 4, 1)], params("ns_ResizeKernel_Params", mode="RESIZE_INTER_CUBIC")).fails("interpolation mode 2")

x = rand(1, 5, 5, 2)
bad = lambda **more: params("ns_SpatialReduction_Params", **{**dict(kernel_w=2, kernel_h=2, stride_w=1, stride_h=1, dilation_w=1, dilation_h=1), **more})
case("bad_kernel", "maxpool_2d_fwd_f32", [x], [None, x], bad(kernel_w=0)).fails("must be positive")
case("bad_window", "maxpool_2d_fwd_f32", [x], [None, x], bad(kernel_h=9)).fails("a window of 9 is larger than 5")
case("bad_pad", "maxpool_2d_fwd_f32", [x], [None, x], bad(pad_w_begin=-1)).fails("a padding of -1")
case("bad_convention", "maxpool_2d_fwd_f32", [x], [None, x], bad(pooling_convention=7)).fails("pooling convention 7")
case("bad_rank", "maxpool_2d_fwd_f32", [rand(5, 5, 2)], [None, x], bad()).fails("rank")
case("bad_gradient", "maxpool_2d_bwd_f32", [x, x.to(torch.uint8)], [x], bad()).fails("the windows give")
case("bad_adaptive", "adaptive_avg_pool_2d_fwd_f32", [x], [x], params("ns_AdaptiveAvgPool_Params", outputHeight=0, outputWidth=2)).fails("height or width of 0")

sys.exit(suite.main())
