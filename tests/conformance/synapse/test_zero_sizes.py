# SPDX-License-Identifier: Apache-2.0
"""Zero sizes: each node type with each of its sizes made 0 in turn, and what is not empty then."""

import struct

from api_params import axis_params, slice_params, strided_params, transpose_params
from cases import *
from cases import Tensor
from derived import CONTRADICTED, Words, copy_of, each_node_type
from layer_params import params

suite = Suite()


def sizes_of(case):
    """The sizes above 1 of what it reads."""
    found = []
    for line in case.lines:
        if line.startswith("tensor "):
            words = Words(line)
            if "data" in words.keys or "host" in words.keys:
                found += [s for s in words.sizes() or () if s > 1 and s not in found]
    return found


def emptied(case, size):
    """The case with 0 in the place of `size`, everywhere."""
    copy = copy_of(case, f"zero{size}")
    for at, line in enumerate(copy.lines):
        if not line.startswith("tensor "):
            continue
        words = Words(line)
        shape = words.sizes()
        if shape is None or size not in shape:
            continue
        words.keys["sizes"] = words.keys["sizes"] and ",".join("0" if int(s) == size else s for s in words.keys["sizes"].split(","))
        for key in ("data", "host"):
            if key in words.keys and words.keys.get("type", "0") == "0":
                words.keys[key] = ""
        copy.lines[at] = str(words)
    for name, (expected, tolerance, *check) in case.expected.items():
        shape = tuple(0 if s == size else s for s in expected.shape)
        copy.expected[name] = (torch.zeros(shape, dtype=expected.dtype), tolerance, *check)
    return copy


for table, case in each_node_type(1):
    for size in sizes_of(case):
        # What is not empty then has cases of its own below.
        copy = emptied(case, size)
        if (case.name, size) not in CONTRADICTED and all(size in expected.shape for expected, *_ in case.expected.values()):
            suite.cases.append(copy)


def case(name, guid, inputs, outputs, p=b"", declare=True):
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs], [None if v is None else c.output(v, declare=declare) for v in outputs], p)
    return c


f32 = torch.float32
empty = lambda *shape, dtype=f32: torch.zeros(shape, dtype=dtype)
gemm = lambda a, b: struct.pack("??", a, b)

# Products over nothing.
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    t = TYPE_NAMES[dtype]
    a, b = empty(3, 0, dtype=dtype), empty(0, 5, dtype=dtype)
    case(f"gemm_{t}_k", "gemm", [a, b], [a @ b])
    case(f"gemm_{t}_k_bias", "gemm", [a, b, torch.arange(5).to(dtype)], [torch.arange(5).to(dtype).expand(3, 5).contiguous()])
    case(f"gemm_{t}_k_ta", "gemm", [empty(0, 3, dtype=dtype), b], [empty(3, 5, dtype=dtype)], gemm(True, False))
    case(f"gemm_{t}_k_tb", "gemm", [a, empty(5, 0, dtype=dtype)], [empty(3, 5, dtype=dtype)], gemm(False, True))
    case(f"gemm_dedx_{t}_k", "gemm_dedx", [a, empty(5, 0, dtype=dtype)], [empty(3, 5, dtype=dtype)])
    case(f"gemm_dedw_{t}_k", "gemm_dedw", [empty(0, 5, dtype=dtype), empty(0, 3, dtype=dtype)], [empty(3, 5, dtype=dtype)])
    x, y = empty(2, 4, 3, 0, dtype=dtype), empty(2, 4, 0, 5, dtype=dtype)
    case(f"batch_gemm_{t}_k", "batch_gemm", [x, y], [x.float().matmul(y.float()).to(dtype)], declare=False)
    case(f"batch_gemm_dedw_{t}_k", "batch_gemm_dedw", [empty(2, 0, 5, dtype=dtype), empty(2, 0, 3, dtype=dtype)], [empty(2, 3, 5, dtype=dtype)])
    case(f"batch_gemm_dedx_{t}_k", "batch_gemm_dedx", [empty(2, 3, 0, dtype=dtype), empty(2, 5, 0, dtype=dtype)], [empty(2, 3, 5, dtype=dtype)])
    case(f"matmul_{t}_k", f"matmul_fwd_{t}", [x, y], [empty(2, 4, 3, 5, dtype=dtype)])
    case(f"linear_{t}_k", f"linear_fwd_{t}", [a, empty(5, 0, dtype=dtype), torch.arange(5).to(dtype)], [torch.arange(5).to(dtype).expand(3, 5).contiguous()])
    case(f"linear_{t}_rows", f"linear_fwd_{t}", [empty(0, 4, dtype=dtype), rand(5, 4, dtype=dtype)], [empty(0, 5, dtype=dtype)], declare=False)
    case(f"gemm_{t}_rows", "gemm", [empty(0, 4, dtype=dtype), rand(4, 5, dtype=dtype)], [empty(0, 5, dtype=dtype)], declare=False)
    case(f"gemm_{t}_columns", "gemm", [rand(3, 4, dtype=dtype), empty(4, 0, dtype=dtype)], [empty(3, 0, dtype=dtype)], declare=False)
    case(f"gemm_{t}_nothing", "gemm", [empty(0, 0, dtype=dtype), empty(0, 0, dtype=dtype)], [empty(0, 0, dtype=dtype)], declare=False)
    case(f"batch_gemm_{t}_batch", "batch_gemm", [empty(0, 3, 4, dtype=dtype), empty(0, 4, 5, dtype=dtype)], [empty(0, 3, 5, dtype=dtype)], declare=False)
    case(f"batch_gemm_{t}_broadcast", "batch_gemm", [empty(0, 3, 4, dtype=dtype), rand(4, 5, dtype=dtype)], [empty(0, 3, 5, dtype=dtype)], declare=False)
    e = b"ij,jk->ik" + b"\0" * 42
    case(f"einsum_{t}_k", "einsum", [a, b], [a @ b], e)
a4, b4 = rand(1, 2, 3, 4), rand(1, 2, 4, 5)
case("masked_batch_gemm_no_masks", "masked_batch_gemm", [a4, b4, empty(1, 1, 3, 0), empty(1, 1, 0, 5)], [a4 @ b4])
case("masked_batch_gemm_masks_alone", "masked_batch_gemm", [empty(1, 2, 3, 0), empty(1, 2, 0, 5), a4[:, :1].contiguous(), b4[:, :1].contiguous()],
     [(a4[:, :1] @ b4[:, :1]).expand(1, 2, 3, 5).contiguous()])
bias = rand(3, 5)
case("addmm_k", "addmm_f32", [bias, empty(3, 0), empty(0, 5)], [0.5 * bias], params("ns_AddmmKernel_Params", alpha=1.0, beta=0.5))

# Convolutions over no channels, of no images, of no filters.
conv = struct.pack("<10I", 3, 3, 1, 1, 1, 1, 1, 1, 1, 1) + struct.pack("<BBHIQQ", 0, 0, 0, 0, 0, 0) + struct.pack("<2I", 1, 0)
case("convolution_channels", "spatial_convolution", [empty(2, 4, 5, 0), empty(3, 3, 0, 6)], [empty(2, 4, 5, 6)], conv)
case("convolution_images", "spatial_convolution", [empty(0, 4, 5, 3), rand(3, 3, 3, 6)], [empty(0, 4, 5, 6)], conv, declare=False)
case("convolution_filters", "spatial_convolution", [rand(2, 4, 5, 3), empty(3, 3, 3, 0)], [empty(2, 4, 5, 0)], conv, declare=False)
case("dedx_filters", "dedx", [empty(2, 4, 5, 0), empty(3, 3, 3, 0)], [empty(2, 4, 5, 3)], conv)
case("dedx_images", "dedx", [empty(0, 4, 5, 6), rand(3, 3, 3, 6)], [empty(0, 4, 5, 3)], conv)
case("convolution_of_nothing", "spatial_convolution", [empty(2, 0, 5, 3), rand(3, 3, 3, 6)], [empty(2, 0, 5, 6)], conv, declare=False)
case("convolution_larger_kernel", "spatial_convolution", [rand(2, 1, 5, 3), rand(3, 3, 3, 6)], [empty(2, 0, 3, 6)],
     struct.pack("<10I", 3, 3, 1, 1, 0, 0, 0, 0, 1, 1) + conv[40:], declare=False)
case("dedx_of_nothing", "dedx", [empty(2, 0, 3, 6), rand(3, 3, 3, 6)], [empty(2, 1, 5, 3)], struct.pack("<10I", 3, 3, 1, 1, 0, 0, 0, 0, 1, 1) + conv[40:])
case("dedw_images", "dedw", [empty(0, 4, 5, 6), empty(0, 4, 5, 3)], [empty(3, 3, 3, 6)], conv)

# Reductions of nothing have the neutral number; a mean has none.
REDUCTIONS = {"sum": 0.0, "mean": float("nan"), "prod": 1.0, "max": -float("inf"), "min": float("inf"), "sum_square": 0.0, "l1": 0.0, "l2": 0.0, "log_sum_exp": -float("inf")}
for kind, neutral in REDUCTIONS.items():
    case(f"reduce_{kind}", f"reduce_{kind}_fwd_f32", [empty(3, 0)], [torch.full((3, 1), neutral)], params("ns_Reduction_Params", reductionDimension=0))
    case(f"reduce_{kind}_none", f"reduce_{kind}_fwd_f32", [empty(0, 4)], [empty(0, 1)], params("ns_Reduction_Params", reductionDimension=0), declare=False)
    if kind not in ("l1", "l2"):
        case(f"reduce_{kind}_multi", f"reduce_{kind}_multi_dim_fwd_f32", [empty(2, 0, 3)], [torch.full((2, 1, 1), neutral)],
             params("ns_Reduction_ParamsV2", reductionDimensionMask=3, keepDim=True))
case("reduce_sum_i32", "reduce_sum_fwd_i32", [empty(0, 3, dtype=torch.int32)], [empty(1, 3, dtype=torch.int32)], params("ns_Reduction_Params", reductionDimension=1))
case("frobenius_norm", "frobenius_norm_fwd", [empty(3, 0)], [empty(1)])

# Movement: what is empty adds nothing, and may be made of nothing.
piece = rand(3, 4)
case("concat_empty_first", "concat", [empty(0, 4), piece], [piece], axis_params(1), declare=False)
case("concat_empty_last", "concat", [piece, empty(3, 0)], [piece], axis_params(0), declare=False)
case("concat_empties", "concat", [empty(0, 4), empty(0, 4)], [empty(0, 4)], axis_params(1), declare=False)
case("split_empty_piece", "split", [piece], [empty(0, 4), piece, empty(0, 4)], axis_params(1))
case("split_of_nothing", "split", [empty(0, 4)], [empty(0, 1), empty(0, 3)], axis_params(0))
case("reshape_of_nothing", "reshape", [empty(0, 4)], [empty(2, 0, 7)])
case("transpose_of_nothing", "transpose", [empty(0, 4, 5)], [empty(5, 0, 4)], transpose_params((2, 0, 1)), declare=False)
case("broadcast_to_nothing", "broadcast", [rand(1, 4)], [empty(0, 4)])
case("expand_dims_of_nothing", "expand_dims", [empty(0, 4)], [empty(0, 1, 4)], axis_params(1), declare=False)
case("squeeze_of_nothing", "squeeze", [empty(0, 1, 4)], [empty(0, 4)], axis_params(1), declare=False)
case("flatten_of_nothing", "flatten", [empty(2, 0, 4)], [empty(2, 0)], axis_params(1), declare=False)
case("identity_of_nothing", "identity", [empty(0, 4)], [empty(0, 4)], declare=False)
case("memset_of_nothing", "memset", [], [empty(0, 4)])
case("slice_of_nothing", "slice", [empty(0, 4)], [empty(0, 2)], slice_params([(0, 1, 3, 1)]), declare=False)
case("slice_to_nothing", "slice", [piece], [empty(3, 0)], slice_params([(0, 2, 2, 1)]), declare=False)
case("slice_before_its_start", "slice", [empty(0, 4)], [empty(0, 4)], slice_params([(1, 2, 5, 1)]), declare=False)
case("slice_axis_of_nothing", "slice_axis", [empty(0, 4)], [empty(0, 4)], struct.pack("<3I", 1, 0, 9), declare=False)
case("slice_insert_of_nothing", "slice_insert", [piece, empty(3, 0)], [piece], slice_params([(0, 2, 2, 1)]), declare=False)
case("slice_grad_of_nothing", "strided_slice_grad", [empty(3, 0)], [empty(3, 4)], slice_params([(0, 2, 2, 1)]))
case("strided_view_to_nothing", "strided_view", [piece], [empty(0, 3)], strided_params(99, (4, 1)))
case("strided_insert_of_nothing", "strided_insert", [piece, empty(0, 3)], [piece], strided_params(99, (4, 1)), declare=False)
case("reinterpret_of_nothing", "reinterpret_cast", [empty(0, 4)], [empty(0, 4, dtype=torch.int32)])
case("cast_of_nothing", "cast_f32_to_i32", [empty(0, 4)], [empty(0, 4, dtype=torch.int32)], declare=False)
case("pad_of_nothing", "pad_fwd_f32", [empty(0, 2)], [torch.full((3, 4), 1.5)], params("ns_PadKernelEx_Params", mode="PAD_MODE_CONSTANT", value=1.5, pads=[1, 1, 1, 2]))
case("tile_of_nothing", "tile_fwd_f32", [empty(0, 2)], [empty(0, 6)], params("ns_TileKernel_Params", repeat=[3, 2, 1, 1]), declare=False)
case("tile_no_times", "tile_fwd_f32", [rand(3, 2)], [empty(3, 0)], params("ns_TileKernel_Params", repeat=[0, 1, 1, 1]))
case("flip_of_nothing", "flip_fwd_f32", [empty(0, 2)], [empty(0, 2)], params("ns_FlipKernel_Params", axis=1), declare=False)
case("roll_of_nothing", "roll_f32", [empty(0, 2)], [empty(0, 2)], params("ns_RollKernel_Params", shifts=[1], dims=[1]), declare=False)
case("constant_of_nothing", "constant_f32", [], [empty(0, 3)], params("ns_ConstantKernel_Params", constant=2.0))

# Indices: none of them, and places that nothing is written to.
i32 = torch.int32
table = rand(6, 4)
none = empty(0, dtype=i32)
case("gather_none", "gather_fwd_f32", [table, none], [empty(0, 4)], params("ns_GatherKernel_Params", axis=1), declare=False)
case("gather_none_of_nothing", "gather_fwd_f32", [empty(0, 4), none], [empty(0, 4)], params("ns_GatherKernel_Params", axis=1), declare=False)
case("gather_columns_of_nothing", "gather_fwd_f32", [empty(6, 0), torch.tensor([1, 5], dtype=i32)], [empty(2, 0)], params("ns_GatherKernel_Params", axis=1), declare=False)
case("embedding_none", "embedding_pt_fwd_f32", [table, none], [empty(0, 4)], declare=False)
case("embedding_bwd_none", "embedding_dense_pt_bwd_f32", [empty(0, 4), none], [empty(6, 4)], params("ns_EmbeddingDensePtBwdKernel_Params", num_weights=6, padding_idx=-1))
case("gather_elements_none", "gather_elements_fwd_f32", [table, empty(0, 4, dtype=i32)], [empty(0, 4)], params("ns_GatherElementsKernel_Params", axis=1), declare=False)
case("scatter_none", "scatter_fwd_f32", [table, empty(0, 4, dtype=i32), empty(0, 4)], [table], params("ns_ScatterKernel_Params", axis=1), declare=False)
case("scatter_add_none", "scatter_add_fwd_f32", [table, empty(0, 4, dtype=i32), empty(0, 4)], [table], params("ns_ScatterKernel_Params", axis=1), declare=False)
case("scatter_nd_none", "scatter_nd_onnx_fwd_f32", [table, empty(0, 1, dtype=i32), empty(0, 4)], [table], declare=False)
case("index_copy_none", "index_copy_fwd_f32", [table, none, empty(0, 4)], [table], params("ns_IndexCopy_Params", axis=1), declare=False)
case("one_hot_none", "one_hot_fwd_f32", [none], [empty(0, 3)], params("ns_OneHotKernel_Params", axis=0, depth=3, on_value=1.0, off_value=0.0), declare=False)
case("cumsum_of_nothing", "cumsum_fwd_f32", [empty(0, 4)], [empty(0, 4)], params("ns_CumSumKernel_Params", axis=1), declare=False)
case("topk_none", "topk", [table], [empty(6, 0), empty(6, 0, dtype=i32)], struct.pack("<IIBBH", 0, 0, 0, 0, 0))
case("sort_of_nothing", "sort_fwd_f32", [empty(0, 4)], [empty(0, 4), empty(0, 4, dtype=i32)], params("ns_Sort_Params", axis=1), declare=False)
case("search_sorted_none", "search_sorted_fwd_f32", [torch.arange(4.0), empty(0)], [empty(0, dtype=i32)], declare=False)
case("search_sorted_of_nothing", "search_sorted_fwd_f32", [empty(0), torch.arange(4.0)], [empty(4, dtype=i32)], declare=False)
case("non_zero_of_nothing", "non_zero_fwd_f32", [empty(0, 4)], [empty(0, 2, dtype=i32), torch.tensor([2, 0, 1, 1, 1], dtype=i32)])
case("where_of_nothing", "where_fwd_f32", [empty(0, 4, dtype=torch.int8), empty(0, 4), rand(1, 4)], [empty(0, 4)], declare=False)
case("masked_fill_of_nothing", "masked_fill_fwd_f32", [empty(0, 4), empty(0, 4, dtype=torch.int8), rand(1)], [empty(0, 4)], declare=False)

# Norms of rows of nothing, and of no rows.
softmax = params("ns_Softmax_Params", dim=0)
case("softmax_rows", "softmax_fwd_f32", [empty(0, 4)], [empty(0, 4)], softmax, declare=False)
case("softmax_columns", "softmax_fwd_f32", [empty(3, 0)], [empty(3, 0)], softmax, declare=False)
case("add_broadcast", "add_fwd_f32", [empty(0, 4), rand(4)], [empty(0, 4)], declare=False)
case("add_broadcast_one", "add_fwd_f32", [empty(3, 0), rand(3, 1)], [empty(3, 0)], declare=False)
case("mse_loss_sum", "mse_loss_fwd_f32", [empty(0, 4), empty(0, 4)], [empty(1)], params("ns_MSELossKernel_Params", mode="MSE_LOSS_REDUCTION_MODE_SUM"))

# What has no answer.
bad = lambda name: suite.case(f"bad_{name}")
c = bad("element_of_nothing")
c.node("gather_fwd_f32", [c.input(empty(0, 4)), c.input(torch.tensor([0], dtype=i32))], [c.output(empty(1, 4))], params("ns_GatherKernel_Params", axis=1)).fails("no elements")
c = bad("place_of_the_largest")
c.node("argmax_fwd_f32", [c.input(empty(3, 0))], [c.output(empty(3, 1, dtype=i32))], params("ns_Reduction_Params", reductionDimension=0)).fails("no elements")
c = bad("add_sizes")
c.node("add_fwd_f32", [c.input(empty(0, 4)), c.input(rand(3, 4))], [c.temp()]).node("abs_fwd_f32", [Tensor(2, "t2")], [c.output(empty(0, 4), declare=False)]).fails("add")
c = bad("reshape_of_nothing")
c.node("reshape", [c.input(empty(0, 4))], [c.output(rand(4))]).fails("cannot reshape")
c = bad("topk_of_nothing")
c.node("topk", [c.input(empty(3, 0))], [c.output(empty(3, 2)), c.output(empty(3, 2, dtype=i32))], struct.pack("<IIBBH", 2, 0, 0, 0, 0)).fails("k is 2 of 0 elements")
c = bad("inner_sizes")
c.node("gemm", [c.input(empty(3, 0)), c.input(rand(4, 5))], [c.output(empty(3, 5))]).fails("gemm")

if __name__ == "__main__":
    sys.exit(suite.main())
