# SPDX-License-Identifier: Apache-2.0
"""Gathers, scatters, embeddings, sorts and scans against PyTorch."""

from cases import *
from layer_params import params

suite = Suite()
I32 = torch.int32


def case(name, guid, inputs, outputs, p=b"", tolerance=None, declare=True):
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs],
           [None if v is None else c.output(v, tolerance=tolerance, declare=declare) for v in outputs], p)
    return c


for dtype in (*FLOATS, I32):
    t = TYPE_NAMES[dtype]
    low, high = (-1, 1) if dtype.is_floating_point else (-99, 99)
    x = rand(4, 5, 6, dtype=dtype, low=low, high=high)
    for axis in range(3):
        dim = 2 - axis
        size = x.shape[dim]
        one, two = rand(7, dtype=I32, low=0, high=size), rand(2, 3, dtype=I32, low=0, high=size)
        p = params("ns_GatherKernel_Params", axis=axis)
        case(f"gather_{t}_{axis}", f"gather_fwd_{t}", [x, one], [x.index_select(dim, one)], p, declare=axis == 0)
        taken = x.index_select(dim, two.flatten()).reshape(*x.shape[:dim], 2, 3, *x.shape[dim + 1:])
        case(f"gather_{t}_{axis}_2d", f"gather_fwd_{t}", [x, two], [taken], p)
        shape = list(x.shape)
        shape[dim] = 7
        at = rand(*shape, dtype=I32, low=0, high=size)
        case(f"gather_elements_{t}_{axis}", f"gather_elements_fwd_{t}", [x, at], [x.gather(dim, at.long())],
             params("ns_GatherElementsKernel_Params", axis=axis))
        # Scatters: distinct targets, then meeting ones.
        shape[dim] = 3
        distinct = torch.argsort(rand(*x.shape), dim=dim).narrow(dim, 0, 3).to(I32)
        updates = rand(*shape, dtype=dtype, low=low, high=high)
        p = params("ns_ScatterKernel_Params", axis=axis)
        case(f"scatter_{t}_{axis}", f"scatter_fwd_{t}", [x, distinct, updates], [x.scatter(dim, distinct.long(), updates)], p)
        shape[dim] = 7
        meeting, updates = rand(*shape, dtype=I32, low=0, high=size), rand(*shape, dtype=dtype, low=low, high=high)
        wide = torch.float64 if dtype.is_floating_point else dtype
        added = x.to(wide).scatter_add(dim, meeting.long(), updates.to(wide)).to(dtype)
        for guid in ("scatter_add_fwd", "unsorted_scatter_add_fwd", "complex_scatter_add"):
            case(f"{guid}_{t}_{axis}", f"{guid}_{t}", [x, meeting, updates], [added], p)
        case(f"scatter_value_{t}_{axis}", f"scatter_value_fwd_{t}", [x, meeting], [x.scatter(dim, meeting.long(), 3)],
             params("ns_ScatterValueKernel_Params", dim=dim, value=3.0))
        if dtype.is_floating_point:
            for mode, kind in (("sum", "SUM"), ("prod", "PROD"), ("mean", "MEAN"), ("amax", "AMAX"), ("amin", "AMIN")):
                for include in (True, False):
                    expected = x.double().scatter_reduce(dim, meeting.long(), updates.double(), mode, include_self=include).to(dtype)
                    case(f"scatter_reduce_{t}_{axis}_{mode}_{int(include)}", f"scatter_reduce_fwd_{t}", [x, meeting, updates], [expected],
                         params("ns_ScatterReduceKernel_Params", dim=dim - 3 if include else dim, include_self=include, mode="SCATTER_REDUCE_" + kind))
        else:
            for mode, kind in (("sum", "SUM"), ("prod", "PROD"), ("amax", "AMAX"), ("amin", "AMIN")):
                for include in (True, False):
                    case(f"scatter_reduce_{t}_{axis}_{mode}_{int(include)}", f"scatter_reduce_fwd_{t}", [x, meeting, updates],
                         [x.scatter_reduce(dim, meeting.long(), updates, mode, include_self=include)],
                         params("ns_ScatterReduceKernel_Params", dim=dim, include_self=include, mode="SCATTER_REDUCE_" + kind))
        if dtype.is_floating_point:
            leaf = x.double().requires_grad_()
            dy = rand(*x.shape[:dim], 7, *x.shape[dim + 1:], dtype=dtype)
            leaf.index_select(dim, one).backward(dy.double())
            zero = torch.zeros_like(x)
            case(f"gather_bwd_{t}_{axis}", f"gather_bwd_{t}", [zero, one, dy], [leaf.grad.to(dtype)], params("ns_GatherKernel_Params", axis=axis))
            case(f"gather_bwd_{t}_{axis}_elements", f"gather_bwd_{t}", [zero, meeting, updates],
                 [zero.double().scatter_add(dim, meeting.long(), updates.double()).to(dtype)], p)
        copied = rand(*[3 if d == dim else s for d, s in enumerate(x.shape)], dtype=dtype, low=low, high=high)
        places = torch.tensor([2, 0, 3], dtype=I32)
        case(f"index_copy_{t}_{axis}", f"index_copy_fwd_{t}", [x, places, copied], [x.index_copy(dim, places.long(), copied)],
             params("ns_IndexCopy_Params", axis=axis))
    # Updates that cover a part of x; of meeting ones the last stays.
    part, updates = rand(2, 7, 3, dtype=I32, low=0, high=5), rand(2, 7, 3, dtype=dtype, low=low, high=high)
    wide = torch.float64 if dtype.is_floating_point else dtype
    case(f"scatter_add_{t}_part", f"scatter_add_fwd_{t}", [x, part, updates],
         [x.to(wide).scatter_add(1, part.long(), updates.to(wide)).to(dtype)], params("ns_ScatterKernel_ParamsV2", axis=1, dim=1))
    expected = x.clone()
    for m in range(7):
        expected.scatter_(1, part[:, m:m + 1].long(), updates[:, m:m + 1])
    case(f"scatter_{t}_part", f"scatter_fwd_{t}", [x, part, updates], [expected], params("ns_ScatterKernel_ParamsReduce", axis=1))
    # Batched gather, negative indices, index tuples.
    at = rand(4, 3, dtype=I32, low=-6, high=6)
    case(f"gather_{t}_batch", f"gather_fwd_{t}", [x, at], [torch.stack([x[b].index_select(1, at[b] % 6) for b in range(4)])],
         params("ns_GatherKernel_ParamsV2", axis=0, batchDims=1))
    tuples = torch.stack([rand(2, 3, dtype=I32, low=0, high=s) for s in (4, 5)], -1)
    case(f"gather_nd_{t}", f"gather_nd_onnx_fwd_{t}", [x, tuples], [x[tuples[..., 0].long(), tuples[..., 1].long()]])
    # Parts outside of their dim are the nearest inside; negative ones count from its end.
    wild = torch.stack([rand(5, dtype=I32, low=-3 * s, high=3 * s) for s in (4, 5)], -1)
    inside = [torch.where(p < 0, p + s, p).clamp(0, s - 1).long() for p, s in zip(wild.unbind(-1), (4, 5))]
    case(f"gather_nd_{t}_outside", f"gather_nd_onnx_fwd_{t}", [x, wild], [x[inside[0], inside[1]]])
    updates = rand(2, 3, 6, dtype=dtype, low=low, high=high)
    expected = x.clone()
    for place, update in zip(tuples.reshape(-1, 2).tolist(), updates.reshape(-1, 6)):
        expected[tuple(place)] = update
    by_parts = tuples.movedim(-1, 0).contiguous()
    case(f"gather_nd_mxnet_{t}", f"gather_nd_mxnet_fwd_{t}", [x, by_parts], [x[by_parts[0].long(), by_parts[1].long()]], declare=False)
    deep = torch.stack([rand(7, dtype=I32, low=-s, high=s) for s in x.shape])
    case(f"gather_nd_mxnet_{t}_all", f"gather_nd_mxnet_fwd_{t}", [x, deep], [x[tuple(deep.long())]])
    # Sorted tuples, where each one's slice of the updates is, and the updates: index_put with accumulate on zeros.
    for depth in (1, 2, 3):
        places = torch.stack([rand(9, dtype=I32, low=0, high=min(s, 3)) for s in x.shape[:depth]], -1)
        order = torch.tensor(sorted(range(9), key=lambda r: places[r].tolist()), dtype=I32)
        parts = rand(9, *x.shape[depth:], dtype=dtype, low=low, high=high)
        summed = torch.zeros(x.shape, dtype=wide).index_put(tuple(places.long().T), parts.to(wide), accumulate=True).to(dtype)
        for version in ("", "V2"):
            case(f"scatter_nd_sum_{t}_{depth}{version}", f"scatter_nd_fwd_{t}", [places[order.long()], order[:, None], parts], [summed],
                 params("ns_ScatterNDKernel_Params" + version, origIndicesDims=2, origIndicesShape=[depth, 9]))
    case(f"scatter_nd_{t}", f"scatter_nd_onnx_fwd_{t}", [x, tuples, updates], [expected])
    case(f"scatter_nd_update_{t}", f"scatter_nd_update_fwd_{t}", [x, tuples, updates], [expected],
         params("ns_ScatterNdUpdateKernel_Params", mode="SCATTER_ND_UPDATE_MODE_DETERMINISTIC"))
    for axis in range(3):
        labels = rand(4, 5, dtype=I32, low=0, high=6)
        hot = torch.nn.functional.one_hot(labels.long(), 6).movedim(-1, 2 - axis)
        on, off = (3.0, -1.0)
        case(f"one_hot_{t}_{axis}", f"one_hot_fwd_{t}", [labels], [torch.where(hot > 0, on, off).to(dtype)],
             params("ns_OneHotKernel_Params", axis=axis, depth=6, on_value=on, off_value=off))

    # Sorts: ties keep their order.
    x = rand(3, 9, 4, dtype=dtype, low=low, high=high)
    x[:, 3] = x[:, 5]
    for axis in range(3):
        dim = 2 - axis
        for descending in (True, False):
            values, places = torch.sort(x, stable=True, dim=dim, descending=descending)
            name = f"{t}_{axis}_{int(descending)}"
            case(f"sort_{name}", f"sort_fwd_{t}", [x], [values, places.to(I32)], params("ns_Sort_Params", axis=axis, isDescending=descending))
            k = 2
            case(f"topk_{name}", "topk", [x], [values.narrow(dim, 0, k).contiguous(), places.narrow(dim, 0, k).to(torch.int64).contiguous()],
                 params("ns_TopkNodeV2_ParamsV3", bsw=k, axis=axis, bottomK=not descending))
    case(f"topk_{t}_node", f"topk_{t}", [x], [torch.sort(x, 2, descending=True).values[..., :1].contiguous(), None],
         params("ns_TopkNode_Params", bsw=1, axis=0))
    if dtype.is_floating_point:
        dy, places = rand(3, 4, 4, dtype=dtype), torch.argsort(rand(3, 9, 4), 1)[:, :4].to(I32).contiguous()
        case(f"sort_bwd_{t}", f"sort_bwd_{t}", [dy, places], [torch.zeros(3, 9, 4, dtype=dtype).scatter(1, places.long(), dy)],
             params("ns_SortBwd_Params", topK=4, axis=1))

    # Scans.
    for axis in range(3):
        dim = 2 - axis
        for exclusive in (0, 1):
            for reverse in (0, 1):
                y = x.double() if dtype.is_floating_point else x
                y = y.flip(dim) if reverse else y
                z = y.cumsum(dim) - y if exclusive else y.cumsum(dim)
                z = (z.flip(dim) if reverse else z).to(dtype)
                p = params("ns_CumSumKernel_Params", axis=axis, exclusive=exclusive, reverse=reverse)
                case(f"cumsum_{t}_{axis}{exclusive}{reverse}", f"cumsum_fwd_{t}", [x], [z], p)
        small = x if dtype.is_floating_point else x % 3 - 1
        y = small.double().cumprod(dim).to(dtype) if dtype.is_floating_point else small.cumprod(dim).to(dtype)
        case(f"cumprod_{t}_{axis}", f"cumprod_fwd_{t}", [small], [y], params("ns_CumProdKernel_Params", axis=axis))
    ordered, probes = torch.sort(rand(4, 7, dtype=dtype, low=low, high=high), -1).values, rand(4, 5, dtype=dtype, low=low, high=high)
    probes[:, 0] = ordered[:, 2]
    for right in (0, 1):
        case(f"search_sorted_{t}_{right}", f"search_sorted_fwd_{t}", [ordered, probes],
             [torch.searchsorted(ordered.double(), probes.double(), right=bool(right)).to(I32)], params("ns_SearchSorted_Params", right=right))

special = torch.tensor([[1.0, float("nan"), -3.0, float("inf"), 0.0, float("-inf"), float("nan")]])
for descending in (True, False):
    values, places = torch.sort(special, stable=True, dim=1, descending=descending)
    case(f"sort_special_{int(descending)}", "sort_fwd_f32", [special], [values, places.to(I32)], params("ns_Sort_Params", axis=0, isDescending=descending))
long = rand(2, 1000)
values, places = torch.sort(long, 1, descending=True)
case("topk_long", "topk", [long], [values[:, :10].contiguous(), places[:, :10].to(I32).contiguous()], params("ns_TopkNodeV2_ParamsV2", bsw=10, axis=0))
# Few of many, with ties, infinities and NaN; more picks than there are numbers.
few = rand(3, 600, low=-3, high=3).round()
few[1, 5], few[1, 400], few[1, 7], few[1, 9] = float("nan"), float("nan"), float("inf"), float("-inf")
few[2] = float("-inf")
few[2, 17], few[2, 3] = float("nan"), float("inf")
for dtype, low in ((torch.float32, None), (torch.bfloat16, None), (I32, -2 ** 31), (torch.int8, -128)):
    x = few.to(dtype) if low is None else torch.nan_to_num(few[:1]).to(dtype).repeat(2, 1)
    if low is not None:
        x[1] = low
        x[1, 40] = 2 ** 31 - 1 if dtype == I32 else 127
    for descending in (True, False):
        values, places = torch.sort(x, stable=True, dim=1, descending=descending)
        case(f"topk_few_{TYPE_NAMES[dtype]}_{int(descending)}", f"topk_{TYPE_NAMES[dtype]}", [x], [values[:, :6].contiguous(), places[:, :6].to(I32).contiguous()],
             params("ns_TopkNodeV2_ParamsV3", bsw=6, axis=0, bottomK=not descending))
case("cumsum_long", "cumsum_fwd_f32", [long], [long.double().cumsum(1).float()], params("ns_CumSumKernel_Params", axis=0))

# Embeddings.
for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    weight, at = rand(11, 6, dtype=dtype), rand(3, 5, dtype=I32, low=0, high=11)
    case(f"embedding_pt_{t}", f"embedding_pt_fwd_{t}", [weight, at], [torch.nn.functional.embedding(at, weight)])
    for padding, scale in ((-1, False), (3, False), (-1, True)):
        leaf = weight.double().requires_grad_()
        dy = rand(3, 5, 6, dtype=dtype)
        torch.nn.functional.embedding(at, leaf, padding_idx=padding if padding >= 0 else None, scale_grad_by_freq=scale).backward(dy.double())
        case(f"embedding_dense_pt_bwd_{t}_{padding}_{int(scale)}", f"embedding_dense_pt_bwd_{t}", [dy, at], [leaf.grad.to(dtype)],
             params("ns_EmbeddingDensePtBwdKernel_Params", num_weights=11, padding_idx=padding, scaleGradByFreq=scale))
    flat, offsets = rand(9, dtype=I32, low=0, high=11), torch.tensor([0, 4, 4, 7], dtype=I32)
    for mode in ("sum", "mean"):
        expected = torch.nn.functional.embedding_bag(flat.long(), weight.double(), offsets.long(), mode=mode).to(dtype)
        p = params("ns_EmbeddingBagWithSgdKernel_Params", mode="EMBEDDING_BAG_MODE_" + mode.upper())
        case(f"embedding_bag_{t}_{mode}", f"embedding_bag_sgd_fwd_{t}", [weight, flat, offsets], [expected], p)
        ends = torch.tensor([0, 4, 4, 7, 9], dtype=I32)
        case(f"embedding_bag_{t}_{mode}_ends", f"embedding_bag_sgd_fwd_{t}", [weight, flat, ends], [expected], p)

# Coordinates of what is not zero, padded with rows of zeros; the second result is the first one's true sizes.
def non_zero(name, x, guid="non_zero_fwd", rows=None, dtype=None, p=b""):
    found = torch.nonzero(x).to(I32)
    rows = rows or x.numel()
    coordinates = torch.cat([found, torch.zeros(rows - len(found), x.dim(), dtype=I32)])
    c = suite.case(f"non_zero_{name}")
    c.node(f"{guid}_{TYPE_NAMES[x.dtype]}", [c.input(x)],
           [c.output(coordinates, declare=rows != x.numel()), c.output(torch.tensor([x.dim(), len(found), 1, 1, 1], dtype=I32), dtype=dtype)], p)


for dtype in (*FLOATS, torch.float16, I32, torch.int8, torch.uint8, torch.int64):
    x = rand(3, 4, 5, dtype=I32, low=0, high=2).to(dtype)
    non_zero(TYPE_NAMES[dtype], x)
    non_zero(TYPE_NAMES[dtype] + "_v2", x, "non_zero_v2_fwd", rows=3 * 4 * 64, dtype=1024, p=params("ns_NonzeroV2_Params", group_size=64))
non_zero("none", torch.zeros(4, 3))
non_zero("all", torch.ones(17))
non_zero("one", torch.tensor([[-0.0, float("nan")]]))
non_zero("single", torch.tensor([5.0]))
non_zero("bool", rand(6, 7, dtype=torch.bool))
non_zero("rank_5", rand(2, 3, 2, 3, 2, dtype=I32, low=0, high=2))
non_zero("sparse", (rand(50, 101) > 0.99).float())

# Negative indices count from the end; those outside, and none at all, change nothing.
x, updates = rand(4, 5), rand(3, 5)
at = torch.tensor([[-1, 0, 4, -5, 3], [2, -4, 9, 1, -1], [0, -9, 1, 2, 3]], dtype=I32)
replaced, added = x.clone(), x.clone()
for m in range(3):
    for k in range(5):
        if -4 <= at[m, k] < 4:
            replaced[at[m, k], k] = updates[m, k]
            added[at[m, k], k] += updates[m, k]
case("scatter_outside", "scatter_fwd_f32", [x, at, updates], [replaced], params("ns_ScatterKernel_Params", axis=1))
case("scatter_add_outside", "scatter_add_fwd_f32", [x, at, updates], [added], params("ns_ScatterKernel_Params", axis=1))
case("scatter_i64_indices", "scatter_fwd_f32", [x, at.long(), updates], [replaced], params("ns_ScatterKernel_Params", axis=1))
case("scatter_extreme_nan", "scatter_reduce_fwd_f32", [x, torch.zeros(2, 5, dtype=I32), torch.full((2, 5), float("nan"))],
     [torch.cat([torch.full((1, 5), float("nan")), x[1:]])], params("ns_ScatterReduceKernel_Params", mode="SCATTER_REDUCE_AMAX", include_self=True))
case("scatter_none", "scatter_fwd_f32", [x, torch.zeros(0, 5, dtype=I32), torch.zeros(0, 5)], [x], params("ns_ScatterKernel_Params", axis=1))
pairs = torch.tensor([[1, -1], [4, 0], [1, 4], [-2, 2]], dtype=I32)
expected = x.clone()
for (i, k), update in zip(pairs.tolist(), updates.flatten()[:4]):
    if i < 4:
        expected[i, k] = update
case("scatter_nd_outside", "scatter_nd_onnx_fwd_f32", [x, pairs, updates.flatten()[:4].contiguous()], [expected])

x = rand(4, 5)
case("bad_axis", "gather_fwd_f32", [x, torch.zeros(3, dtype=I32)], [x], params("ns_GatherKernel_Params", axis=2)).fails("axis 2")
case("bad_indices", "gather_fwd_f32", [x, x], [x], params("ns_GatherKernel_Params")).fails("integers")
case("bad_updates", "scatter_fwd_f32", [x, torch.zeros(2, 5, dtype=I32), rand(2, 4)], [x], params("ns_ScatterKernel_Params", axis=1)).fails("updates have sizes")
case("bad_cover", "scatter_fwd_f32", [x, torch.zeros(5, 5, dtype=I32), rand(5, 5)], [x], params("ns_ScatterKernel_Params", axis=0)).fails("reach beyond x")
case("bad_tuples", "gather_nd_onnx_fwd_f32", [x, torch.zeros(2, 3, dtype=I32)], [x]).fails("index tuples of 3")
case("bad_parts", "gather_nd_mxnet_fwd_f32", [x, torch.zeros(3, 2, dtype=I32)], [x]).fails("index tuples of 3")
p = params("ns_ScatterNDKernel_Params", origIndicesDims=2, origIndicesShape=[1, 3])
three = torch.zeros(3, 1, dtype=I32)
case("bad_positions", "scatter_nd_fwd_f32", [three, three[:2], rand(3, 5)], [x], p).fails("input 1 (positions) has sizes {1, 2} for 3 tuples")
case("bad_parts_of_sum", "scatter_nd_fwd_f32", [three, three, rand(3, 4)], [x], p).fails("updates have sizes {4, 3}", "need 15")
case("bad_sum_sizes", "scatter_nd_fwd_f32", [three, three, rand(3, 5)], [x], p, declare=False).fails("output 0 (y) needs its sizes")
case("bad_rows", "non_zero_fwd_f32", [x], [torch.zeros(19, 2, dtype=I32), torch.zeros(5, dtype=I32)]).fails("has sizes {2, 19}", "{2, 20} or more rows")
case("bad_pads", "non_zero_v2_fwd_f32", [x], [torch.zeros(20, 2, dtype=I32), torch.zeros(5, dtype=I32)],
     params("ns_NonzeroV2_Params", pads=[1])).fails("pads or max_chunks")
case("bad_index", "index_f32", [x, three], [x], b"\0" * 8).fails("is not there yet: the layout of ns_IndexKernel is not documented")
case("bad_index_put", "index_put_fwd_f32", [x, three, x], [x]).fails("is not there yet", "scatter_nd_onnx_fwd")
case("bad_bag", "embedding_bag_sgd_bwd_f32", [x, x, three], [x], params("ns_EmbeddingBagWithSgdKernel_Params")).fails("the order of its operands")
case("bad_moe", "moe_bf16", [x, three, x], [x], b"\0" * 16).fails("node 'n0' (moe_bf16)", "ns_MoeKernel")
case("bad_k", "topk", [x], [x, None], params("ns_TopkNodeV2_ParamsV2", bsw=6, axis=0)).fails("k is 6 of 5")
case("bad_depth", "one_hot_fwd_f32", [torch.zeros(3, dtype=I32)], [x], params("ns_OneHotKernel_Params")).fails("depth 0")
case("bad_embedding", "embedding_pt_fwd_f32", [rand(2, 3, 4), torch.zeros(3, dtype=I32)], [x]).fails("weight")

# Codes that only move stay what they are.
codes = torch.randint(-99, 99, (4, 6), dtype=torch.int8)
picks = torch.tensor([3, 0, 2], dtype=I32)
c = suite.case("gather_quantised")
c.node("gather_fwd_i8", [c.input(codes, scale=0.5), c.input(picks)], [c.output(codes.index_select(0, picks), scale=0.5)],
       params("ns_GatherKernel_Params", axis=1))

sys.exit(suite.main())
