# SPDX-License-Identifier: Apache-2.0
"""Node types that programs take from SynapseAI's compiler and from TensorFlow; unique, segments, top-k of a valid count."""

import struct

from api_params import axis_params, transpose_params, transpose_params_ndims
from cases import *
from layer_params import params

suite = Suite()
f32, bf16, i32 = torch.float32, torch.bfloat16, torch.int32
TYPES = (f32, bf16, torch.int8, i32, torch.int64)


def make(*shape, dtype):
    return rand(*shape, dtype=dtype, low=-1.0 if dtype.is_floating_point else -50, high=1.0 if dtype.is_floating_point else 50)


# ---- the compiler's names for what has another name ---------------------------------------------------
for dtype in TYPES:
    t = TYPE_NAMES[dtype]
    x = make(3, 4, 5, dtype=dtype)
    for perm in ((2, 0, 1), (0, 2, 1), (2, 1, 0)):
        c = suite.case(f"transpose_dma_{t}_{''.join(map(str, perm))}")
        c.node("transpose_dma", [c.input(x)], [c.output(x.permute(perm).contiguous(), declare=False)], transpose_params(perm))
    for guid in ("concat_logical_internal", "physical_concat"):
        for axis in range(3):
            parts = [make(*[s if i != 2 - axis else n for i, s in enumerate((3, 4, 5))], dtype=dtype) for n in (2, 1, 6)]
            c = suite.case(f"{guid}_{t}_{axis}")
            c.node(guid, [c.input(p) for p in parts], [c.output(torch.cat(parts, 2 - axis))], axis_params(axis))
    c = suite.case(f"static_reshape_{t}")
    c.node("static_reshape", [c.input(x)], [c.output(x.reshape(6, 10))])
    for guid in ("serialize_dma", "deserialize_dma"):
        c = suite.case(f"{guid}_{t}")
        c.node(guid, [c.input(x)], [c.output(x)])
p6, x6 = (5, 0, 3, 1, 4, 2), rand(2, 3, 2, 2, 3, 4)
c = suite.case("transpose_dma_6d")
c.node("transpose_dma", [c.input(x6)], [c.output(x6.permute(p6).contiguous())], transpose_params_ndims(p6))
c = suite.case("static_reshape_shape_tensor")
c.node("static_reshape", [c.input(x6), c.shape((12, 24))], [c.output(x6.reshape(12, 24), declare=False)])
c = suite.case("static_reshape_params")
c.node("static_reshape", [c.input(x6)], [c.output(x6.reshape(12, 24))], bytes(456))
c = suite.case("serialize_then_deserialize")
mid = c.temp(x6.shape, f32)
c.node("serialize_dma", [c.input(x6)], [mid])
c.node("deserialize_dma", [mid], [c.output(x6)])

# ---- reduction ---------------------------------------------------------------------------------------
REDUCTIONS = {
    "add": (0, lambda a: sum(a[1:], a[0])), "sub": (1, lambda a: a[0] - sum(a[2:], a[1])),
    "min": (2, lambda a: torch.stack(a).amin(0)), "max": (3, lambda a: torch.stack(a).amax(0)),
    "set": (4, lambda a: a[-1]), "max0": (5, lambda a: torch.stack(a).amax(0).clamp(min=0)), "unordered_set": (6, lambda a: a[-1]),
}
for dtype in (f32, bf16, i32):
    parts = [make(3, 7, dtype=dtype) for _ in range(4)]
    wide = [p.double() if dtype.is_floating_point else p for p in parts]
    for name, (code, apply) in REDUCTIONS.items():
        c = suite.case(f"reduction_{name}_{TYPE_NAMES[dtype]}")
        c.node("reduction", [c.input(p) for p in parts], [c.output(apply(wide).to(dtype))], struct.pack("<I", code))
    c = suite.case(f"reduction_default_{TYPE_NAMES[dtype]}")
    c.node("reduction", [c.input(p) for p in parts], [c.output(sum(wide[1:], wide[0]).to(dtype), declare=False)])
c = suite.case("reduction_of_one")
c.node("reduction", [c.input(parts[0])], [c.output(parts[0])])
c = suite.case("reduction_of_one_max0")
c.node("reduction", [c.input(parts[0])], [c.output(parts[0].clamp(min=0))], struct.pack("<I", 5))

# ---- nodes that do nothing but order others -----------------------------------------------------------
a, b = rand(4, 6), rand(4, 6)
c = suite.case("nop_between")
c.node("add_f32", [c.input(a), c.input(b)], [c.output(a + b)], name="one")
c.node("nop", [], [], name="gap", after=["one"])
c.node("sub_f32", [c.input(a), c.input(b)], [c.output(a - b)], after=["gap"])
c = suite.case("nop_reads")
t = c.temp((4, 6), f32)
c.node("add_f32", [c.input(a), c.input(b)], [t])
c.node("nop", [t, c.input(a)], [])
c.node("neg_f32", [t], [c.output(-(a + b))])
c = suite.case("nop_leaves_its_result")  # It holds what it held.
s = c.section("persistent")
held = c.tensor((4, 6), f32, s, data=a.numpy().tobytes().hex())
c.node("nop", [c.input(b)], [held])
c.node("neg_f32", [held], [c.output(-a)])
c = suite.case("nop_orders_writes")  # Through control edges alone, a section is read after it was written.
s = c.section("persistent")
c.node("neg_f32", [c.tensor((4, 6), f32, s, data=a.numpy().tobytes().hex(), name="old")], [c.output(-a, section=s, name="new")], name="w")
c.node("nop", [], [], name="fence", after=["w"])
c.node("identity", [c.tensor((4, 6), f32, s, name="again")], [c.output(-a)], after=["fence"])
c = suite.case("nop_scratch")
t = c.temp((4, 6), f32)
c.node("nop", [], [t])
c.node("mult_f32", [t, c.input(a)], [c.output(torch.zeros(4, 6))])
for name, p in (("", b""), ("_cycles", struct.pack("<I", 1000))):
    c = suite.case(f"wait{name}")
    c.node("add_f32", [c.input(a), c.input(b)], [c.output(a + b)], name="one")
    c.node("wait", [], [], p, name="pause", after=["one"])
    c.node("sub_f32", [c.input(a), c.input(b)], [c.output(a - b)], after=["pause"])

# ---- TensorFlow's batch norms ------------------------------------------------------------------------
for dtype in (f32, bf16):
    t = TYPE_NAMES[dtype]
    x, mean, var, offset, scale = rand(2, 3, 4, 5, dtype=dtype), rand(5), rand(5, low=0.1, high=2.0), rand(5), rand(5)
    y = (x.double() - mean) / (var.double() + 1e-2).sqrt() * scale + offset
    c = suite.case(f"tf_batch_normalization_{t}")
    c.node(f"tf_batch_normalization_fwd_{t}", [c.input(v) for v in (x, mean, var, offset, scale)], [c.output(y.to(dtype))], struct.pack("<f", 1e-2))
    g = rand(2, 3, 4, 5, dtype=dtype)
    xd = x.double().requires_grad_()
    sd, od = scale.double().requires_grad_(), torch.zeros(5, dtype=torch.double, requires_grad=True)
    flat = xd.reshape(-1, 5)
    m, v = flat.mean(0), flat.var(0, unbiased=False)
    ((xd - m) / (v + 1e-3).sqrt() * sd + od).backward(g.double())
    c = suite.case(f"tf_fused_batch_norm_grad_{t}")
    c.node(f"tf_fused_batch_norm_grad_{t}", [c.input(g), c.input(x), c.input(scale), c.input(m.detach().float()), c.input(v.detach().float())],
           [c.output(xd.grad.to(dtype), tolerance=2e-2 if dtype == bf16 else None), c.output(sd.grad.float()), c.output(od.grad.float())], struct.pack("<f", 1e-3))
    c = suite.case(f"tf_fused_batch_norm_grad_dx_{t}")
    c.node("tf_fused_batch_norm_grad", [c.input(g), c.input(x), c.input(scale), c.input(m.detach().float()), c.input(v.detach().float())],
           [c.output(xd.grad.to(dtype), tolerance=2e-2 if dtype == bf16 else None)], struct.pack("<f", 1e-3))
c = suite.case("tf_batch_normalization_broadcast")
full = rand(3, 4, 5)
m4 = rand(4, 1)
c.node("tf_batch_normalization_fwd", [c.input(full), c.input(m4), c.input(torch.ones(1)), c.input(torch.zeros(1)), c.input(torch.ones(5))],
       [c.output(((full.double() - m4) / (1 + 1e-3) ** 0.5).float())])
c = suite.case("tf_batch_normalization_default_epsilon")
c.node("tf_batch_normalization_fwd", [c.input(v) for v in (full, mean, var, offset, scale)],
       [c.output(((full.double() - mean) / (var.double() + 1e-3).sqrt() * scale + offset).float())])
for dtype in (f32, bf16):
    t = TYPE_NAMES[dtype]
    x, k = rand(2, 3, 4, 6, dtype=dtype), rand(6)
    flat = x.double().reshape(-1, 6)
    c = suite.case(f"batch_norm_stage1_{t}")
    c.node(f"batch_norm_stage1_fwd_{t}", [c.input(x)], [c.output(torch.stack([flat.sum(0), (flat * flat).sum(0)]).float())],
           params("ns_BatchNormStage1Kernel_Params", N=24))
    c = suite.case(f"batch_norm_stage1_shift_{t}")
    d = flat - k.double()
    c.node(f"batch_norm_stage1_fwd_{t}", [c.input(x), c.input(k)], [c.output(d.sum(0).float()), c.output((d * d).sum(0).float())],
           params("ns_BatchNormStage1Kernel_ParamsV2", N=24, isTraining=True))
for dtype in (f32, bf16):
    t = TYPE_NAMES[dtype]
    x, g = rand(3, 7), rand(3, 7, dtype=dtype)
    y = torch.log_softmax(x.double(), 1)
    yt = y.to(dtype)
    want = g.double() - yt.double().exp() * g.double().sum(1, keepdim=True)
    c = suite.case(f"logsoftmax_bwd_{t}")
    c.node(f"logsoftmax_bwd_{t}", [c.input(g), c.input(yt)], [c.output(want.to(dtype))], params("ns_Softmax_Params", dim=0))

# ---- unique ------------------------------------------------------------------------------------------
# Of nothing: no values, and a count of 0; zeros where there is place for more.
for size in (0, 3):
    c = suite.case(f"unique_of_nothing_{size}")
    c.node("unique_fwd_f32", [c.input(torch.zeros(0))], [c.output(torch.zeros(size)), c.output(torch.zeros(1, dtype=torch.int32))], params("ns_UniqueKernel_Params"))


def unique(x, rows=None):
    """values, inverse, counts, count; values and counts are filled up with zeros."""
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    rows = rows or x.numel()
    fill = lambda v: torch.cat([v, torch.zeros(max(0, rows - v.numel()), dtype=v.dtype)])[:rows]
    return fill(values), inverse.int(), fill(counts.int()), torch.tensor([values.numel()], dtype=i32)


UNIQUES = {
    "f32": torch.tensor([3.0, -1, 3, 3, 0.5, -1, 7, 0.5, 3]), "i32": rand(40, dtype=i32, low=-5, high=5), "i8": rand(33, dtype=torch.int8, low=0, high=4),
    "i64": rand(17, dtype=torch.int64, low=-3, high=3), "bf16": rand(20, low=0, high=4).round().bfloat16(), "u8": torch.full((9,), 200, dtype=torch.uint8),
}
for t, x in UNIQUES.items():
    values, inverse, counts, count = unique(x)
    both = params("ns_UniqueKernel_Params", returnInverse=1, returnCounts=1)
    c = suite.case(f"unique_{t}")
    c.node(f"unique_fwd_{t}", [c.input(x)], [c.output(values), c.output(count)], params("ns_UniqueKernel_Params"))
    c = suite.case(f"unique_inverse_{t}")
    c.node(f"unique_fwd_{t}", [c.input(x)], [c.output(values), c.output(inverse), c.output(count)], params("ns_UniqueKernel_Params", returnInverse=1))
    c = suite.case(f"unique_counts_{t}")
    c.node(f"unique_fwd_{t}", [c.input(x)], [c.output(values), c.output(counts), c.output(count)], params("ns_UniqueKernel_Params", returnCounts=1))
    c = suite.case(f"unique_both_{t}")
    c.node(f"unique_fwd_{t}", [c.input(x)], [c.output(values), c.output(inverse), c.output(counts), c.output(count)], both)
    c = suite.case(f"unique_values_{t}")
    c.node(f"unique_fwd_{t}", [c.input(x)], [c.output(values, declare=False)])
values, inverse, counts, count = unique(UNIQUES["i32"])
c = suite.case("unique_no_inverse_declared")
c.node("unique_i32", [c.input(UNIQUES["i32"])], [c.output(values), None, c.output(counts), c.output(count)], both)
c = suite.case("unique_sizes_of_values")
c.node("unique_i32", [c.input(UNIQUES["i32"])], [c.output(values), c.output(torch.cat([count, torch.ones(4, dtype=i32)]))])
c = suite.case("unique_fewer_rows")
c.node("unique_i32", [c.input(UNIQUES["i32"])], [c.output(values[:3].contiguous()), c.output(count)])
c = suite.case("unique_of_one")
c.node("unique_f32", [c.input(torch.tensor([2.5]))], [c.output(torch.tensor([2.5])), c.output(torch.tensor([1], dtype=i32))])
flat = rand(3, 4, dtype=i32, low=0, high=5)
values, inverse, counts, count = unique(flat)
c = suite.case("unique_flattens")
c.node("unique_i32", [c.input(flat)], [c.output(values), c.output(inverse), c.output(count)], params("ns_UniqueKernel_Params", returnInverse=1, dim=-1))

# ---- segments ----------------------------------------------------------------------------------------
for dtype in (f32, bf16, i32):
    data, index, segment = make(6, 5, dtype=dtype), torch.tensor([4, 0, 1, 4, 5, 2, 2]).int(), torch.tensor([0, 0, 1, 1, 1, 3, 3]).int()
    want = torch.zeros(4, 5, dtype=torch.double if dtype.is_floating_point else dtype)
    want.index_add_(0, segment.long(), data[index.long()].to(want.dtype))
    c = suite.case(f"sparse_segment_sum_{TYPE_NAMES[dtype]}")
    c.node(f"sparse_segment_sum_fwd_{TYPE_NAMES[dtype]}", [c.input(data), c.input(index), c.input(segment)], [c.output(want.to(dtype))])
cube = rand(4, 2, 3)
c = suite.case("sparse_segment_sum_3d")
want = torch.zeros(2, 2, 3, dtype=torch.double)
want.index_add_(0, torch.tensor([0, 1, 1]), cube[torch.tensor([3, 3, 0])].double())
c.node("sparse_segment_sum_f32", [c.input(cube), c.input(torch.tensor([3, 3, 0]).int()), c.input(torch.tensor([0, 1, 1]).int())], [c.output(want.float())])

# ---- top-k with a count of valid elements ------------------------------------------------------------
TOPK = lambda **m: params("ns_TopkNodeV2_ParamsV4", **m)


def top(x, valid, k, dim, largest):
    """Elements behind the count come last, in their order."""
    rows = x.movedim(dim, -1)
    counts = torch.as_tensor(valid).broadcast_to(rows.shape[:-1])
    values, indices = torch.empty(*rows.shape[:-1], k, dtype=x.dtype), torch.empty(*rows.shape[:-1], k, dtype=i32)
    for at in torch.cartesian_prod(*[torch.arange(s) for s in rows.shape[:-1]]).reshape(-1, rows.dim() - 1).tolist() if rows.dim() > 1 else [[]]:
        row, n = rows[tuple(at)], int(counts[tuple(at)])
        order = torch.cat([torch.sort(row[:n], descending=largest, stable=True).indices, torch.arange(n, row.numel())])[:k]
        values[tuple(at)], indices[tuple(at)] = row[order], order.int()
    return values.movedim(-1, dim).contiguous(), indices.movedim(-1, dim).contiguous()


for dtype in (f32, bf16, i32, torch.int8, torch.int64):
    x = make(3, 4, 9, dtype=dtype)
    for largest in (True, False):
        for dim in (2, 1, 0):
            n = max(1, x.shape[dim] - 2)
            values, indices = top(x, n, min(2, x.shape[dim]), dim, largest)
            c = suite.case(f"topk_valid_{TYPE_NAMES[dtype]}_{dim}_{'most' if largest else 'least'}")
            c.node("topk", [c.input(x), c.input(torch.tensor([n], dtype=i32))], [c.output(values), c.output(indices)],
                   TOPK(bsw=values.shape[dim], axis=2 - dim, bottomK=not largest, isVcData=True))
x = rand(3, 4, 9)
x[0, 0, 1], x[1, 1, 8], x[2, 2, 0] = float("nan"), float("nan"), float("-inf")
for largest in (True, False):
    counts = rand(3, 4, dtype=i32, low=1, high=9)
    values, indices = top(x, counts, 9, 2, largest)
    c = suite.case(f"topk_valid_rows_{'most' if largest else 'least'}")
    c.node("topk", [c.input(x), c.input(counts)], [c.output(values), c.output(indices)], TOPK(bsw=9, axis=0, bottomK=not largest, isVcData=True))
values, indices = top(x[1], 3, 5, 1, True)
c = suite.case("topk_more_than_valid")  # Those that are not valid fill the rest.
c.node("topk_f32", [c.input(x[1].contiguous()), c.input(torch.tensor([3], dtype=i32))], [c.output(values), c.output(indices)], TOPK(bsw=5, axis=0))
x = rand(4, 9)
for name, shape in (("list", (3,)), ("like_the_result", (4, 3))):
    values, indices = top(x, 9, 3, 1, True)
    c = suite.case(f"topk_k_operand_{name}")
    c.node("topk", [c.input(x), None, None, c.shape(shape)], [c.output(values), c.output(indices)], TOPK(bsw=9, axis=0, kType=1))
values, indices = top(x, 5, 3, 1, False)
c = suite.case("topk_valid_and_k")
c.node("topk", [c.input(x), c.input(torch.tensor([5], dtype=i32)), None, c.shape((4, 3))], [c.output(values), c.output(indices)],
       TOPK(bsw=9, axis=0, bottomK=True, isVcData=True, kType=1))
# The size of x is free: the count stays what the operand says; and k itself is free.
x = rand(2, 7)
values, indices = top(x, 4, 3, 1, True)
c = suite.case("topk_free_rows")
t = c.tensor((8, 7), f32, c.section("persistent"), min="7,1", actual="7,2", data=x.numpy().tobytes().hex())
y = c.tensor((8, 3), f32, c.section("persistent"), name="y", min="3,1")
c.node("topk", [t, c.input(torch.tensor([4], dtype=i32))], [y], TOPK(bsw=3, axis=0, isVcData=True))
c.expected["y"] = (values, None)
c = suite.case("topk_free_k")
t = c.input(x)
y = c.tensor((2, 7), f32, c.section("persistent"), name="y", min="1,2")
c.node("topk", [t, None, None, c.tensor((2, 7), i32, None, type=1, min="1,2", actual="3,2")], [y], TOPK(bsw=7, axis=0, kType=1))
c.expected["y"] = (top(x, 7, 3, 1, True)[0], None)

# ---- what is refused ---------------------------------------------------------------------------------
bad = lambda name: suite.case(f"bad_{name}")
x = rand(2, 3)
c = bad("reduction_kind")
c.node("reduction", [c.input(x), c.input(x)], [c.output(x)], struct.pack("<I", 7)).fails("no reduction 7")
c = bad("reduction_sizes")
c.node("reduction", [c.input(x), c.input(rand(3, 2))], [c.output(x)]).fails("input 1", "{2, 3}", "{3, 2}")
c = bad("wait_params")
c.node("wait", [], [], bytes(3))
c.node("identity", [c.input(x)], [c.output(x)]).fails("parameters of 3 bytes", "synWaitParams")
c = bad("static_reshape")
c.node("static_reshape", [c.input(x)], [c.output(rand(5))]).fails("cannot reshape {3, 2} to {5}")
c = bad("physical_concat")
c.node("physical_concat", [c.input(x), c.input(rand(2, 4))], [c.output(rand(4, 3))], axis_params(1)).fails("input 1", "axis 1")
c = bad("transpose_dma")
c.node("transpose_dma", [c.input(x)], [c.output(x)], transpose_params((0, 1, 2))).fails("tensorDim is 3")
c = bad("serialize_opens")  # Its result may not have wider strides.
c.node("serialize_dma", [c.input(rand(3, 4))], [c.tensor((3, 4), f32, c.section("persistent"), strides="4,32")]).fails("stride of 32 bytes, more than the 16")
c = bad("deserialize_closes")
c.node("deserialize_dma", [c.tensor((3, 4), f32, c.section("persistent"), strides="12,4", data=rand(3, 4).numpy().tobytes().hex())], [c.output(rand(3, 4))]).fails("stride of 4 bytes, less than the 12")
c = bad("unique_dim")
c.node("unique_f32", [c.input(x)], [c.output(rand(6))], params("ns_UniqueKernel_Params", dim=1)).fails("unique slices along a dim")
c = bad("segments_long")
c.node("sparse_segment_sum_f32", [c.input(x), c.input(torch.tensor([0, 1]).int()), c.input(torch.tensor([0]).int())], [c.output(x)]).fails("input 2 (segments)", "for 2 indices")
c = bad("segments_rows")
c.node("sparse_segment_sum_f32", [c.input(x), c.input(torch.tensor([0]).int()), c.input(torch.tensor([0]).int())], [c.output(rand(2, 4))]).fails("output 0 (y)", "{4, 2}")
c = bad("topk_count_sizes")
c.node("topk", [c.input(rand(4, 5)), c.input(torch.tensor([1, 2, 3], dtype=i32))], [c.output(rand(4, 2))], TOPK(bsw=2, axis=0)).fails("input 1 (valid count)", "{3}", "4 rows")
c = bad("topk_count_missing")
c.node("topk", [c.input(rand(4, 5))], [c.output(rand(4, 2))], TOPK(bsw=2, axis=0, isVcData=True)).fails("valid count", "isVcData")
c = bad("topk_k")
c.node("topk", [c.input(rand(4, 5)), None, None, c.shape((6,))], [c.output(rand(4, 6))], TOPK(bsw=2, axis=0)).fails("k is 6 of 5")
c = bad("tf_batch_norm_sizes")
c.node("tf_batch_normalization_fwd", [c.input(rand(2, 5)), c.input(rand(3)), c.input(rand(5)), c.input(rand(5)), c.input(rand(5))], [c.output(rand(2, 5))]).fails("input 1 (mean)", "{3}")
for guid in ("merge_shapes", "dynamic_reshape", "image_rotate", "non_max_suppression", "batch_norm_stage2_fwd_f32"):
    c = bad(guid)
    c.node(guid, [c.input(x)], [c.output(x)]).fails("is not there yet", "not documented")

sys.exit(suite.main())
