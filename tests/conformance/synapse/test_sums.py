# SPDX-License-Identifier: Apache-2.0
"""The order of a sum (docs/accuracy.md): an f32 product is one chain of multiply-adds over the common dimension, whatever
the batch, the rows, the columns, transposes, slices, threads, levels and targets; results must be equal bit for bit.
Means of equal numbers are that number."""

import os
import struct

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()
try:
    FUSED = "fma" in open("/proc/cpuinfo").read().split() and os.environ.get("HPU_MAX_CPU") not in ("baseline", "x86-64")
except OSError:
    FUSED = True


def multiply_add(x, y, s):
    """x * y + s, rounded once to f32 (numpy; double holds the product exactly, and rounding to odd the sum)."""
    x, y, s = (v.astype(numpy.float64) for v in (x, y, s))
    p = x * y
    if not FUSED:
        return (p.astype(numpy.float32) + s.astype(numpy.float32)).astype(numpy.float32)
    h = s + p
    z = h - s
    low = (s - (h - z)) + (p - z)  # What h lacks.
    odd = numpy.ascontiguousarray(h).view(numpy.int64) & 1
    h = numpy.where((low != 0) & (odd == 0), numpy.nextafter(h, numpy.copysign(numpy.inf, low)), h)
    return h.astype(numpy.float32)


def chain(a, b):
    """a @ b, the products of an element added one by one."""
    a, b = a.float().numpy(), b.float().numpy()
    s = numpy.zeros(numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + (a.shape[-2], b.shape[-1]), numpy.float32)
    for k in range(a.shape[-1]):
        x, y = numpy.broadcast_arrays(a[..., :, k:k + 1], b[..., k:k + 1, :])
        s = multiply_add(x, y, s)
    return torch.from_numpy(s)


def flags(a, b):
    return struct.pack("??", a, b)


def exact(name, guid, inputs, expected, p=b"", consts=()):
    c = suite.case(name)
    c.node(guid, [c.const(v) if i in consts else c.input(v) for i, v in enumerate(inputs)], [c.output(expected, tolerance=0)], p)


# Rows and columns about the borders of what matrix kernels treat apart, and sums of each length's kind.
for batch, m, k, n in ((1, 5, 64, 7), (3, 5, 64, 7), (7, 5, 64, 7), (4, 31, 33, 10), (2, 62, 100, 16), (5, 1, 300, 16), (6, 2, 257, 15),
                       (3, 11, 129, 8), (3, 12, 129, 8), (2, 40, 70, 17), (2, 65, 31, 65), (9, 3, 520, 3), (16, 24, 48, 12), (2, 130, 513, 9),
                       (40, 4, 7, 5), (2, 200, 40, 64), (3, 29, 1030, 33)):
    a, b = rand(batch, m, k), rand(batch, k, n)
    expected = chain(a, b)
    size = f"{batch}x{m}x{k}x{n}"
    exact(f"batch_gemm_{size}", "batch_gemm", [a, b], expected)
    exact(f"gemm_{size}", "gemm", [a[-1].contiguous(), b[-1].contiguous()], expected[-1].contiguous())
    exact(f"batch_gemm_{size}_transposed", "batch_gemm", [a.mT, b.mT], expected, flags(True, True))
    exact(f"batch_gemm_{size}_shared", "batch_gemm", [a, b[0].contiguous()], chain(a, b[0]))
    if m <= 31:
        exact(f"batch_gemm_{size}_constant", "batch_gemm", [a, b], expected, consts=(1,))
        exact(f"batch_gemm_dedx_{size}", "batch_gemm_dedx", [a, b.mT], expected)
        exact(f"batch_gemm_dedw_{size}", "batch_gemm_dedw", [b.contiguous(), a.mT], chain(a, b))
        exact(f"einsum_{size}", "einsum", [a, b], expected, b"bik,bkj->bij".ljust(51, b"\0"))

# A row of a product that is cut in another way: alone, with others, with a result between (fused), f32 of 16-bit factors.
a, b = rand(3, 19, 77), rand(3, 77, 14)
whole = chain(a, b)
for first, rows in ((0, 1), (3, 2), (7, 11), (8, 11), (0, 12), (0, 18)):
    exact(f"rows_{first}_{rows}", "batch_gemm", [a[:, first:first + rows].contiguous(), b], whole[:, first:first + rows].contiguous())
for first, columns in ((0, 1), (3, 2), (0, 8), (6, 8), (1, 13)):
    exact(f"columns_{first}_{columns}", "batch_gemm", [a, b[:, :, first:first + columns].contiguous()], whole[:, :, first:first + columns].contiguous())
for dtype in (torch.bfloat16, torch.float16):
    x, y = a.to(dtype), b.to(dtype)
    exact(f"narrow_{TYPE_NAMES[dtype]}", "batch_gemm", [x, y], chain(x, y))
    exact(f"narrow_{TYPE_NAMES[dtype]}_single", "gemm", [x[1].contiguous(), y[1].contiguous()], chain(x[1], y[1]))
c = suite.case("followed_by_relu")
product = c.temp(whole.shape, torch.float32)
c.node("batch_gemm", [c.input(a), c.input(b)], [product])
c.node("relu_fwd_f32", [product], [c.output(whole.relu(), tolerance=0)])
c = suite.case("followed_by_a_product")
product, w = c.temp(whole.shape, torch.float32), rand(3, 14, 9)
c.node("batch_gemm", [c.input(a), c.input(b)], [product])
c.node("batch_gemm", [product, c.input(w)], [c.output(chain(whole, w), tolerance=0)])
c = suite.case("of_slices")  # The same product, and one matrix of it made alone in the same graph.
left, right = c.input(a), c.input(b)
c.node("batch_gemm", [left, right], [c.output(whole, tolerance=0)])
one, other = c.temp((19, 77), torch.float32), c.temp((77, 14), torch.float32)
c.node("gemm", [c.input(a[1].contiguous()), c.input(b[1].contiguous())], [c.output(whole[1].contiguous(), tolerance=0)])
bias = rand(14)
c = suite.case("with_bias")
c.node("gemm", [c.input(a[0].contiguous()), c.input(b[0].contiguous()), c.input(bias)], [c.output(whole[0] + bias, tolerance=0)])

# Means of equal numbers, forward; 49 gradients of one, backward.
def window(structure, kernel, stride, pad=0, **more):
    return params(structure, kernel_w=kernel, kernel_h=kernel, stride_w=stride, stride_h=stride, dilation_w=1, dilation_h=1, pad_w_begin=pad,
                  pad_w_end=pad, pad_h_begin=pad, pad_h_end=pad, **more)


nhwc = lambda x: x.movedim(1, -1).contiguous()
for kernel in (3, 5, 6, 7, 11, 13):
    x = torch.full((1, 2, kernel, kernel), 1.0)
    p = window("ns_AveragePooling_Params", kernel, 1)
    c = suite.case(f"mean_of_ones_{kernel}")
    c.node("avg_pool_2d_fwd_f32", [c.input(nhwc(x))], [c.output(nhwc(x[..., :1, :1]), tolerance=0)], p)
    c = suite.case(f"adaptive_mean_of_ones_{kernel}")
    c.node("adaptive_avg_pool_2d_fwd_f32", [c.input(nhwc(x))], [c.output(nhwc(x[..., :1, :1]), tolerance=0)],
           params("ns_AdaptiveAvgPool_Params", outputHeight=1, outputWidth=1))
    gradient = torch.full((1, 2, 1, 1), float(kernel * kernel))
    c = suite.case(f"mean_bwd_of_{kernel}")
    c.node("avg_pool_2d_bwd_f32", [c.input(nhwc(gradient))], [c.output(nhwc(x), tolerance=0)], p)
    c = suite.case(f"adaptive_mean_bwd_of_{kernel}")
    c.node("adaptive_avg_pool_2d_bwd_f32", [c.input(nhwc(gradient))], [c.output(nhwc(x), tolerance=0)])
    override = window("ns_AveragePoolingWithDivisorOverride_Params", kernel, 1, divisorOverride=kernel * kernel)
    c = suite.case(f"mean_bwd_of_{kernel}_override")
    c.node("avg_pool_2d_bwd_f32", [c.input(nhwc(gradient))], [c.output(nhwc(x), tolerance=0)], override)
    cube = dict(kernel_d=kernel, stride_d=1, dilation_d=1, pad_d_begin=0, pad_d_end=0)
    volume = torch.full((1, 1, kernel, kernel, kernel), 1.0)
    c = suite.case(f"mean_3d_bwd_of_{kernel}")
    c.node("avg_pool_3d_bwd_f32", [c.input(nhwc(volume[..., :1, :1, :1] * kernel ** 3))], [c.output(nhwc(volume), tolerance=0)],
           window("ns_AveragePooling3D_Params", kernel, 1, **cube))
# Every share is one division: gradients over windows that share nothing.
for kernel in (3, 7):
    for pad in (0, 1):
        x = torch.zeros(2, 3, 21, 21, requires_grad=True)
        y = F.avg_pool2d(x, kernel, kernel, pad)
        gradient = rand(*y.shape)
        y.backward(gradient)
        c = suite.case(f"shares_{kernel}_{pad}")
        c.node("avg_pool_2d_bwd_f32", [c.input(nhwc(gradient))], [c.output(nhwc(x.grad), tolerance=0)],
               window("ns_AveragePooling_Params", kernel, kernel, pad, includePadding=True))

sys.exit(suite.main())
