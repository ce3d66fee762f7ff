# SPDX-License-Identifier: Apache-2.0
"""What nodes take beside their own form: parameters of other structures, sizes that leave out ones, mixed types."""

import struct

from api_params import axis_params
from cases import *
from layer_params import params

suite = Suite()
f32, bf16, f16, i32 = torch.float32, torch.bfloat16, torch.float16, torch.int32
NARROW = (f32, bf16, f16)


def activation():
    return struct.pack("<BBHIQQ", 0, 0, 0, 1, 0, 0)


def flat(kernel, stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1, extra=b""):
    """synConvolutionParams of {width, height}, and what comes behind it."""
    return struct.pack("<4I4i2I", *kernel, *stride, *pads, *dilation) + activation() + struct.pack("<2I", groups, 0) + extra


def deep(kernel, stride=(1, 1, 1), pads=(0,) * 6, dilation=(1, 1, 1), groups=1, extra=b""):
    return struct.pack("<3I3I6i3II", *kernel, *stride, *pads, *dilation, 0) + activation() + struct.pack("<2I", groups, 0) + extra


V2 = struct.pack("<I9I", 0, *[0] * 9)
SAME = struct.pack("<I9I", 1, *[0] * 9)
assert len(flat((1, 1))) == 72 and len(deep((1, 1, 1))) == 96


def channels_last(v):
    return v.movedim(1, -1).contiguous()


def weights(v):  # [K, C, ...kernel] to [...kernel, C, K].
    return v.permute(*range(2, v.dim()), 1, 0).contiguous()


# ---- convolutions: structures of other sizes ---------------------------------------------------------
def conv_case(name, guid, p, x, w, want, groups=1):
    c = suite.case(name)
    c.node(guid, [c.input(channels_last(x)), c.input(weights(w))], [c.output(channels_last(want.float()))], p)
    return c


x, w = rand(2, 3, 7, 8), rand(5, 3, 2, 3)
full = torch.nn.functional.conv2d(x.double(), w.double(), stride=(2, 1), padding=0)
args = dict(kernel=(3, 2), stride=(1, 2))
for size in (80, 88, 100, 104, 120, 128, 200, 512):
    conv_case(f"convolution_{size}_bytes", "spatial_convolution", flat(**args, extra=bytes(size - 72)), x, w, full)
    # What is behind the fields that all have means something else.
    conv_case(f"convolution_{size}_bytes_filled", "spatial_convolution", flat(**args, extra=b"\x07" * (size - 72)), x, w, full)
for size in (40, 48, 56, 64):
    conv_case(f"convolution_{size}_bytes", "spatial_convolution", flat(**args)[:size], x, w, full)
conv_case("convolution_no_groups", "spatial_convolution", flat(**args, groups=0, extra=bytes(16)), x, w, full)
grouped_w = rand(6, 1, 2, 3)
conv_case("convolution_88_bytes_groups", "spatial_convolution", flat(**args, groups=3, extra=bytes(16)), x, grouped_w,
          torch.nn.functional.conv2d(x.double(), grouped_w.double(), stride=(2, 1), groups=3))
for name, extra in (("", b""), ("_v2", V2)):
    conv_case(f"convolution_of_3d_params{name}", "spatial_convolution", deep((3, 2, 1), (1, 2, 1), extra=extra), x, w, full)
    conv_case(f"convolution_of_3d_params_no_depth{name}", "spatial_convolution", deep((3, 2, 0), (1, 2, 0), dilation=(1, 1, 0), extra=extra), x, w, full)
same = torch.nn.functional.conv2d(torch.nn.functional.pad(x.double(), (1, 1, 0, 1)), w.double())
conv_case("convolution_of_3d_params_same", "spatial_convolution", deep((3, 2, 1), extra=SAME), x, w, same)
padded = torch.nn.functional.conv2d(torch.nn.functional.pad(x.double(), (1, 2, 0, 1)), w.double(), dilation=(2, 1))
conv_case("convolution_of_3d_params_pads", "spatial_convolution", deep((3, 2, 1), pads=(1, 2, 0, 1, 0, 0), dilation=(1, 2, 1)), x, w, padded)
# Gradients read the same structures.
dy = rand(*full.shape)
xd, wd = x.double().requires_grad_(), w.double().requires_grad_()
torch.nn.functional.conv2d(xd, wd, stride=(2, 1)).backward(dy.double())
for name, p in (("88_bytes", flat(**args, extra=bytes(16))), ("3d_params", deep((3, 2, 1), (1, 2, 1))), ("104_bytes", flat(**args, extra=bytes(32)))):
    c = suite.case(f"dedx_{name}")
    c.node("dedx", [c.input(channels_last(dy)), c.input(weights(w))], [c.output(channels_last(xd.grad.float()))], p)
    c = suite.case(f"dedw_{name}")
    c.node("dedw", [c.input(channels_last(dy)), c.input(channels_last(x))], [c.output(weights(wd.grad.float()))], p)
x3, w3 = rand(1, 2, 4, 5, 6), rand(3, 2, 2, 2, 3)
full3 = torch.nn.functional.conv3d(x3.double(), w3.double())
for size in (64, 88, 100, 104, 128, 140):
    p = deep((3, 2, 2))
    conv_case(f"convolution3d_{size}_bytes", "spatial_convolution3d", (p + bytes(100))[:size], x3, w3, full3)
thin = rand(3, 2, 1, 2, 3)
for name, extra in (("", b""), ("_v2", V2)):
    conv_case(f"convolution3d_of_flat_params{name}", "spatial_convolution3d", flat((3, 2), extra=extra), x3, thin, torch.nn.functional.conv3d(x3.double(), thin.double()))
bad = lambda name: suite.case(f"bad_{name}")
c = bad("convolution_short")
c.node("spatial_convolution", [c.input(channels_last(x)), c.input(weights(w))], [c.output(channels_last(full.float()))], flat(**args)[:36]).fails("parameters of 36 bytes", "in common takes 40")
c = bad("convolution_depth")
c.node("spatial_convolution", [c.input(channels_last(x)), c.input(weights(w))], [c.output(channels_last(full.float()))], deep((3, 2, 2))).fails("have a depth (kernel 2", "the node has none")
c = bad("convolution3d_flat_depth")
c.node("spatial_convolution3d", [c.input(channels_last(x3)), c.input(weights(w3))], [c.output(channels_last(full3.float()))], flat((3, 2))).fails("kernel is 1 along the depth")

# ---- pooling -----------------------------------------------------------------------------------------
x = rand(2, 3, 6, 7)
WINDOW = dict(kernel_w=3, kernel_h=2, stride_w=2, stride_h=1, dilation_w=1, dilation_h=1)
DEEP = dict(WINDOW, kernel_d=1, stride_d=1, dilation_d=1)
best = torch.nn.functional.max_pool2d(x, (2, 3), stride=(1, 2))
mean = torch.nn.functional.avg_pool2d(x.double(), (2, 3), stride=(1, 2)).float()
MAX_FORMS = {
    "plain": params("ns_SpatialReduction_Params", **WINDOW), "average": params("ns_AveragePooling_Params", includePadding=1, **WINDOW),
    "divisor": params("ns_AveragePoolingWithDivisorOverride_Params", divisorOverride=5, **WINDOW),
    "3d": params("ns_SpatialReduction3D_Params", **DEEP), "3d_no_depth": params("ns_SpatialReduction3D_Params", **WINDOW),
    "average_3d": params("ns_AveragePooling3D_Params", **DEEP),
}
for name, p in MAX_FORMS.items():
    c = suite.case(f"maxpool_2d_of_{name}_params")
    c.node("maxpool_2d_fwd_f32", [c.input(channels_last(x))], [None, c.output(channels_last(best))], p)
    c = suite.case(f"pt_maxpool_2d_of_{name}_params")
    c.node("pt_maxpool_2d_fwd_f32", [c.input(channels_last(x))], [c.output(channels_last(best))], p)
xg = x.clone().requires_grad_()
y, where = torch.nn.functional.max_pool2d(xg, (2, 3), stride=(1, 2), return_indices=True)
dy = rand(*y.shape)
y.backward(dy)
for name, p in MAX_FORMS.items():
    c = suite.case(f"pt_maxpool_2d_bwd_of_{name}_params")
    c.node("pt_maxpool_2d_bwd_f32", [c.input(channels_last(dy)), c.input(channels_last(x)), c.input(channels_last(where))], [c.output(channels_last(xg.grad))], p)
for name, p in {"plain": params("ns_AveragePooling_Params", **WINDOW), "3d": params("ns_AveragePooling3D_Params", **DEEP),
                "3d_divisor": params("ns_AveragePooling3DWithDivisorOverride_Params", **DEEP), "count": params("ns_AveragePooling_ParamsIsValidCount", **WINDOW)}.items():
    c = suite.case(f"avg_pool_2d_of_{name}_params")
    c.node("avg_pool_2d_fwd_f32", [c.input(channels_last(x))], [c.output(channels_last(mean))], p)
c = suite.case("avg_pool_2d_of_3d_params_divisor")
c.node("avg_pool_2d_fwd_f32", [c.input(channels_last(x))], [c.output(channels_last(mean * 6 / 4))], params("ns_AveragePooling3DWithDivisorOverride_Params", divisorOverride=4, **DEEP))
c = suite.case("maxpool_3d_of_average_params")
v = rand(1, 2, 3, 4, 5)
c.node("maxpool_3d_fwd_f32", [c.input(channels_last(v))], [None, c.output(channels_last(torch.nn.functional.max_pool3d(v, 2)))],
       params("ns_AveragePooling3D_Params", kernel_w=2, kernel_h=2, kernel_d=2, stride_w=2, stride_h=2, stride_d=2, dilation_w=1, dilation_h=1, dilation_d=1))
c = bad("maxpool_short")
c.node("maxpool_2d_fwd_f32", [c.input(channels_last(x))], [None, c.output(channels_last(best))], bytes(40)).fails("parameters of 40 bytes", "takes 44")
c = bad("maxpool_depth")
c.node("maxpool_2d_fwd_f32", [c.input(channels_last(x))], [None, c.output(channels_last(best))], params("ns_SpatialReduction3D_Params", **dict(DEEP, kernel_d=2))).fails("have a depth (kernel 2")
c = bad("avgpool_short")
c.node("avg_pool_2d_fwd_f32", [c.input(channels_last(x))], [c.output(channels_last(mean))], params("ns_SpatialReduction_Params", **WINDOW)).fails("parameters of 44 bytes")

# ---- reshape takes any parameters, constant takes a value ---------------------------------------------
x = rand(3, 4)
for size in (4, 24, 100):
    c = suite.case(f"reshape_{size}_bytes")
    c.node("reshape", [c.input(x)], [c.output(x.reshape(2, 6))], b"\xff" * size)
for dtype in (f32, bf16, i32, torch.int8):
    v = rand(3, 4, dtype=dtype, low=-1.0 if dtype.is_floating_point else -9, high=1.0 if dtype.is_floating_point else 9)
    t = TYPE_NAMES[dtype]
    for name, p in (("", b""), ("_params", params("ns_ConstantKernel_Params", constant=7))):
        c = suite.case(f"constant_of_a_value_{t}{name}")
        c.node(f"constant_{t}", [c.input(v)], [c.output(v)], p)
    c = suite.case(f"constant_of_a_constant_{t}")
    c.node(f"constant_{t}", [c.const(v)], [c.output(v)])
c = suite.case("constant_of_a_value_reshaped")
c.node("constant_f32", [c.input(x)], [c.output(x.reshape(12))])
c = bad("constant_of_a_value")
c.node("constant_f32", [c.input(x)], [c.output(rand(5))]).fails("output 0 (y) has sizes {5}, the node gives {4, 3}")
c = bad("constant_of_nothing")
c.node("constant_f32", [], [c.output(rand(5))]).fails("needs parameters")

# ---- statistics --------------------------------------------------------------------------------------
for shape in ((4, 5), (2, 3, 5), (2, 3, 4, 5), (2, 2, 3, 2, 5)):
    v = rand(*shape)
    rows = v.double().reshape(-1, 5)
    m, var = rows.mean(0).float(), rows.var(0, unbiased=False).float()
    ones = (1,) * (len(shape) - 1)
    c = suite.case(f"moments_of_rank_{len(shape)}_as_lists")
    c.node("moments_fwd", [c.input(v)], [c.output(m), c.output(var)])
    c = suite.case(f"moments_of_rank_{len(shape)}_one_list")
    c.node("moments_fwd", [c.input(v)], [c.output(m), c.output(var.reshape(*ones, 5))])
c = bad("moments_list")
c.node("moments_fwd", [c.input(v)], [c.output(rand(4)), c.output(rand(5))]).fails("output 0 (mean)")

# ---- products: sizes of 1 that are missing or too many, addends ----------------------------------------
GEMM = lambda ta, tb: struct.pack("??", ta, tb)


def matmul(a, b):
    return a.double() @ b.double()


a, b = rand(4, 6), rand(6, 5)
ab = matmul(a, b).float()
c = suite.case("gemm_more_ones")
c.node("gemm", [c.input(a), c.input(b)], [c.output(ab.reshape(1, 1, 4, 5))])
c = suite.case("gemm_fewer_ones")
c.node("gemm", [c.input(a.reshape(1, 4, 6)), c.input(b)], [c.output(ab)])
c = suite.case("gemm_of_a_row")
c.node("gemm", [c.input(a[0].contiguous()), c.input(b)], [c.output(ab[:1].contiguous())])
c = suite.case("gemm_of_a_row_to_a_list")
c.node("gemm", [c.input(a[0].contiguous()), c.input(b)], [c.output(ab[0].contiguous())])
c = suite.case("gemm_of_a_transposed_row")
c.node("gemm", [c.input(rand(4, 1) * 0 + 2), c.input(b[0].contiguous())], [c.output((2 * b[:1]).expand(4, 5).contiguous())])
c = suite.case("gemm_of_a_row_transposed")  # {K} as {K, 1}: with the transpose it is a column.
c.node("gemm", [c.input(a[0].contiguous()), c.input(rand(1, 3) * 0 + 1)], [c.output(a[0].reshape(6, 1).expand(6, 3).contiguous())], GEMM(True, False))
batch = rand(3, 4, 6)
c = suite.case("batch_gemm_of_a_matrix")
c.node("batch_gemm", [c.input(batch), c.input(b)], [c.output(matmul(batch, b).float())])
c = suite.case("batch_gemm_without_batches")
c.node("batch_gemm", [c.input(a), c.input(b)], [c.output(ab.reshape(1, 4, 5))])
c = suite.case("batch_gemm_drops_a_one")
c.node("batch_gemm", [c.input(a.reshape(1, 4, 6)), c.input(b)], [c.output(ab)])
c = suite.case("batch_gemm_five_dims")
c.node("batch_gemm", [c.input(batch), c.input(b)], [c.output(matmul(batch, b).float().reshape(1, 1, 3, 4, 5))])
dc = rand(3, 4, 5)
c = suite.case("batch_gemm_dedx_of_a_matrix")
c.node("batch_gemm_dedx", [c.input(dc), c.input(b)], [c.output(matmul(dc, b.T).float())])
c = suite.case("batch_gemm_dedw_with_a_one")
c.node("batch_gemm_dedw", [c.input(dc[:1].contiguous()), c.input(a)], [c.output(matmul(a.T, dc[0]).float())])
c = suite.case("gemm_dedx_more_ones")
c.node("gemm_dedx", [c.input(dc[0].contiguous()), c.input(b)], [c.output(matmul(dc[0], b.T).float().reshape(1, 4, 6))])
c = suite.case("masked_batch_gemm_more_ones")
qa, qb, ma, mb = rand(1, 2, 3, 4), rand(1, 2, 4, 5), rand(1, 1, 3, 2), rand(1, 1, 2, 5)
c.node("masked_batch_gemm", [c.input(v) for v in (qa, qb, ma, mb)], [c.output((matmul(qa, qb) + matmul(ma, mb)).float().reshape(2, 3, 5))])
ADDENDS = {"row": (5,), "row_of_rank_2": (1, 5), "whole": (4, 5), "column": (4, 1), "one": (1,), "more_ones": (1, 1, 4, 5)}
for name, shape in ADDENDS.items():
    d = rand(*shape)
    c = suite.case(f"gemm_addend_{name}")
    c.node("gemm", [c.input(a), c.input(b), c.input(d)], [c.output((matmul(a, b) + d.reshape(shape[-2:]).double()).float())])
for dtype in (bf16, f16):
    d = rand(4, 5, dtype=dtype)
    an, bn = a.to(dtype), b.to(dtype)
    c = suite.case(f"gemm_addend_whole_{TYPE_NAMES[dtype]}")
    c.node("gemm", [c.input(an), c.input(bn), c.input(d)], [c.output((matmul(an, bn) + d.double()).to(dtype), tolerance=1e-2)])
for name, shape in (("whole", (3, 4, 5)), ("a_matrix", (4, 5)), ("row", (5,)), ("a_batch", (3, 1, 1))):
    d = rand(*shape)
    c = suite.case(f"batch_gemm_addend_{name}")
    c.node("batch_gemm", [c.input(batch), c.input(b), c.input(d)], [c.output((matmul(batch, b) + d.double()).float())])
d = rand(4, 6)
c = suite.case("gemm_dedx_addend")
c.node("gemm_dedx", [c.input(dc[0].contiguous()), c.input(b), c.input(d)], [c.output((matmul(dc[0], b.T) + d).float())])
d = rand(6, 5)
c = suite.case("gemm_dedw_addend")
c.node("gemm_dedw", [c.input(dc[0].contiguous()), c.input(a), c.input(d)], [c.output((matmul(a.T, dc[0]) + d).float())])
square, e = rand(4, 4), rand(4, 1)
c = suite.case("gemm_addend_column_of_a_square")
c.node("gemm", [c.input(square), c.input(square), c.input(e)], [c.output((matmul(square, square) + e).float())])
x, w = rand(2, 3, 5, 6), rand(4, 3, 2, 2)
y = torch.nn.functional.conv2d(x.double(), w.double())
d = rand(*y.shape)
c = suite.case("convolution_addend")
c.node("spatial_convolution", [c.input(channels_last(x)), c.input(weights(w)), c.input(channels_last(d))], [c.output(channels_last((y + d).float()))], flat((2, 2)))
c = suite.case("convolution_addend_of_bias_and_cin")
k = rand(4)
c.node("spatial_convolution", [c.input(channels_last(x)), c.input(weights(w)), c.input(k), c.input(channels_last(d))],
       [c.output(channels_last((y + k.reshape(1, 4, 1, 1) + d).float()))], flat((2, 2)))
c = bad("gemm_addend")
c.node("gemm", [c.input(a), c.input(b), c.input(rand(3, 5))], [c.output(ab)]).fails("input 2 (bias)", "{5, 3}", "{5, 4}")
c = bad("convolution_addend")
c.node("spatial_convolution", [c.input(channels_last(x)), c.input(weights(w)), c.input(rand(2, 4, 5, 3))], [c.output(channels_last(y.float()))], flat((2, 2))).fails("input 2 (bias) has other sizes")
c = bad("gemm_result")
c.node("gemm", [c.input(a), c.input(b)], [c.output(rand(2, 4, 5))]).fails("output 0 (C)")

# ---- tile to a higher rank -----------------------------------------------------------------------------
x = rand(3, 4)
for name, repeat, form in (("batches", (1, 1, 3), "V2"), ("all", (2, 3, 2), ""), ("two_more", (1, 2, 1, 2), ""), ("five", (2, 1, 1, 1, 2), "V2"), ("ones", (1, 1, 1), "V2")):
    times = tuple(reversed(repeat))
    count = 5 if form else 4
    p = params(f"ns_TileKernel_Params{form}", repeat=list(repeat) + [1] * (count - len(repeat)))
    c = suite.case(f"tile_to_rank_{len(repeat)}_{name}")
    c.node("tile_fwd_f32", [c.input(x)], [c.output(x.repeat(times))], p)
    if repeat[-1] > 1:
        c = suite.case(f"tile_to_rank_{len(repeat)}_{name}_inferred")
        c.node("tile_fwd_f32", [c.input(x)], [c.output(x.repeat(times), declare=False)], p)
    c = suite.case(f"tile_to_rank_{len(repeat)}_{name}_shape_tensor")
    c.node("tile_fwd_f32", [c.input(x), c.shape(x.repeat(times).shape)], [c.output(x.repeat(times), declare=False)], p)
c = suite.case("tile_unused_zeros")  # Entries behind the rank may be left 0.
c.node("tile_fwd_f32", [c.input(x)], [c.output(x.repeat(2, 3))], params("ns_TileKernel_Params", repeat=[3, 2, 0, 0]))
c = suite.case("tile_i32_to_rank_3")
v = rand(2, 2, dtype=i32, low=0, high=9)
c.node("tile_fwd_i32", [c.input(v)], [c.output(v.repeat(4, 1, 1))], params("ns_TileKernel_Params", repeat=[1, 1, 4, 1]))

# ---- broadcasts that a shape tensor clips --------------------------------------------------------------
x = rand(4, 6)
for name, to in (("columns", (4, 3)), ("rows", (2, 6)), ("both", (3, 5)), ("and_repeats", (2, 3, 5))):
    c = suite.case(f"broadcast_clips_{name}")
    c.node("broadcast", [c.input(x), c.shape(to)], [c.output(x[:to[-2], :to[-1]].expand(to).contiguous(), declare=False)])
c = suite.case("broadcast_clips_to_nothing")
c.node("broadcast", [c.input(x), c.shape((4, 0))], [c.output(torch.empty(4, 0), declare=False)])
c = suite.case("broadcast_clips_at_launch")
t = c.input(x)
y = c.tensor((4, 6), f32, c.section("persistent"), name="y", min="1,4")
c.node("broadcast", [t, c.tensor((4, 6), i32, None, type=1, min="1,4", actual="5,4")], [y])
c.expected["y"] = (x[:, :5].contiguous(), None)
c = bad("broadcast_clips_without_a_shape_tensor")
c.node("broadcast", [c.input(x)], [c.output(rand(4, 3))]).fails("cannot broadcast {6, 4} to {3, 4}")

# ---- graphs that nobody sees, shapes that do not sum ---------------------------------------------------
c = suite.case("no_persistent_output")
c.node("gemm", [c.input(a), c.input(b)], [c.temp((4, 5), f32)])
c = suite.case("no_persistent_output_of_a_chain")
t = c.temp((4, 5), f32)
c.node("gemm", [c.input(a), c.input(b)], [t])
c.node("relu_fwd_f32", [t], [c.temp()])
c = suite.case("no_persistent_tensor")
c.node("constant_f32", [], [c.temp((4, 5), f32)], params("ns_ConstantKernel_Params", constant=1.0))
c = suite.case("only_nop")
c.node("nop", [c.input(a)], [])
c = suite.case("only_wait")
c.node("wait", [], [])
for name, parts in (("less", ((2, 3), (2, 3))), ("more", ((5, 3), (4, 3)))):
    c = suite.case(f"split_shape_sums_to_{name}")
    ts = [c.tensor(p, i32, None, type=1) for p in parts]
    c.node("split_shape", [c.shape((6, 3))], ts, axis_params(1))
    for p, t in zip(parts, ts):
        c.node("memset", [t], [c.output(torch.zeros(p), declare=False)])

# ---- mixed types -----------------------------------------------------------------------------------------
for one in NARROW:
    for other in NARROW:
        an, bn = a.to(one), b.to(other)
        for result in NARROW:
            c = suite.case(f"gemm_{TYPE_NAMES[one]}_{TYPE_NAMES[other]}_to_{TYPE_NAMES[result]}")
            c.node("gemm", [c.input(an), c.input(bn)], [c.output(matmul(an, bn).to(result))])
    for other in NARROW:
        if one == other:
            continue
        xn, wn = rand(2, 3, 5, 6, dtype=one), rand(4, 3, 2, 2, dtype=other)
        want = torch.nn.functional.conv2d(xn.double(), wn.double())
        t = f"{TYPE_NAMES[one]}_{TYPE_NAMES[other]}"
        c = suite.case(f"convolution_{t}")
        c.node("spatial_convolution", [c.input(channels_last(xn)), c.input(weights(wn))], [c.output(channels_last(want.to(one)))], flat((2, 2)))
        g = rand(*want.shape, dtype=one)
        xd, wd = xn.double().requires_grad_(), wn.double().requires_grad_()
        torch.nn.functional.conv2d(xd, wd).backward(g.double())
        c = suite.case(f"dedx_{t}")
        c.node("dedx", [c.input(channels_last(g)), c.input(weights(wn))], [c.output(channels_last(xd.grad.to(one)))], flat((2, 2)))
        gw, xw = rand(*want.shape, dtype=other), rand(2, 3, 5, 6, dtype=one)
        wz = torch.zeros(4, 3, 2, 2, dtype=torch.double, requires_grad=True)
        torch.nn.functional.conv2d(xw.double(), wz).backward(gw.double())
        c = suite.case(f"dedw_{t}")
        c.node("dedw", [c.input(channels_last(gw)), c.input(channels_last(xw))], [c.output(weights(wz.grad.float()))], flat((2, 2)))
        bn = batch.to(one)
        c = suite.case(f"batch_gemm_{t}")
        c.node("batch_gemm", [c.input(bn), c.input(b.to(other))], [c.output(matmul(bn, b.to(other)).to(one))])
        c = suite.case(f"gemm_dedx_{t}")
        c.node("gemm_dedx", [c.input(dc[0].to(one)), c.input(b.to(other))], [c.output(matmul(dc[0].to(one), b.to(other).T).to(one))])
        c = suite.case(f"gemm_dedw_{t}")
        c.node("gemm_dedw", [c.input(dc[0].to(one)), c.input(a.to(other))], [c.output(matmul(a.to(other).T, dc[0].to(one)).to(one))])
        c = suite.case(f"einsum_{t}")
        c.node("einsum", [c.input(a.to(one)), c.input(b.to(other))], [c.output(matmul(a.to(one), b.to(other)).to(one))], b"ij,jk->ik".ljust(51, b"\0"))
        c = suite.case(f"matmul_{t}")
        c.node(f"matmul_fwd_{TYPE_NAMES[one]}", [c.input(a.to(one)), c.input(b.to(other))], [c.output(matmul(a.to(one), b.to(other)).to(one))])
        c = suite.case(f"linear_{t}")
        c.node(f"linear_fwd_{TYPE_NAMES[one]}", [c.input(a.to(one)), c.input(b.T.contiguous().to(other))], [c.output(matmul(a.to(one), b.to(other)).to(one))])
x, w, g = rand(4, 6), rand(5, 6, dtype=bf16), rand(4, 5)
c = suite.case("linear_temp_bwd_f32_bf16")
c.node("linear_temp_bwd_f32", [c.input(x), c.input(g), c.input(w)], [c.output(matmul(g, w).float()), c.output(matmul(g.T, x).float()), c.output(g.double().sum(0).float())])
c = suite.case("matmul_bwd_f32_bf16")
c.node("matmul_bwd_f32", [c.input(g), c.input(x), c.input(w.T.contiguous())], [c.output(matmul(g, w).float()), c.output(matmul(x.T, g).float())])
c = suite.case("addmm_f32_bf16")
c.node("addmm_f32", [c.input(rand(4, 5, dtype=bf16) * 0), c.input(x), c.input(w.T.contiguous())], [c.output(matmul(x, w.T).float())], params("ns_AddmmKernel_Params", alpha=1.0, beta=1.0))
c = suite.case("masked_batch_gemm_bf16_f32")
qa, qb, ma, mb = rand(1, 2, 3, 4, dtype=bf16), rand(1, 2, 4, 5), rand(1, 1, 3, 2, dtype=bf16), rand(1, 1, 2, 5)
c.node("masked_batch_gemm", [c.input(v) for v in (qa, qb, ma, mb)], [c.output((matmul(qa, qb) + matmul(ma, mb)).float())])
ints = rand(3, 4, dtype=torch.int8, low=-5, high=5), rand(4, 2, dtype=torch.int16, low=-5, high=5)
c = suite.case("gemm_i8_i16")
c.node("gemm", [c.input(v) for v in ints], [c.output(ints[0].int() @ ints[1].int())])
c = bad("gemm_float_and_integer")
c.node("gemm", [c.input(a), c.input(rand(6, 5, dtype=i32, low=0, high=3))], [c.output(ab)]).fails("input 1 (B)", "products of integers")

# Bits stay what they are, numbers stay what they are.
bits = {f32: (i32,), bf16: (f16, torch.int16), f16: (bf16, torch.int16), i32: (f32,), torch.int16: (bf16, f16), torch.int8: (torch.uint8,), torch.uint8: (torch.int8,)}
for one, others in bits.items():
    v = rand(3, 5, dtype=one, low=-1.0 if one.is_floating_point else 0, high=1.0 if one.is_floating_point else 100)
    for other in others:
        want = v.view(other)
        c = suite.case(f"identity_{TYPE_NAMES[one]}_as_{TYPE_NAMES[other]}")
        c.node("identity", [c.input(v)], [c.output(want)])
for one in (f32, bf16, f16, i32, torch.int8, torch.uint8, torch.int16):
    v = rand(3, 5, dtype=one, low=-9.0 if one.is_floating_point else 0, high=9.0 if one.is_floating_point else 100)
    for other in (f32, bf16, i32, torch.int8, torch.int16):
        if one == other:
            continue
        want = v.double().round().to(other) if one.is_floating_point and not other.is_floating_point else v.to(other)
        c = suite.case(f"memcpy_{TYPE_NAMES[one]}_to_{TYPE_NAMES[other]}")
        c.node("memcpy", [c.input(v)], [c.output(want)])
c = suite.case("memcpy_saturates")
c.node("memcpy", [c.input(torch.tensor([1e6, -1e6, 300.0, float("nan")]))], [c.output(torch.tensor([127, -128, 127, 0], dtype=torch.int8), check=lambda got: None if got[:3].tolist() == [127, -128, 127] else str(got))])
c = bad("identity_width")
c.node("identity", [c.input(a)], [c.output(a.bfloat16())]).fails("output 0 (Y) is bf16, the operand f32", "one width")

sys.exit(suite.main())
