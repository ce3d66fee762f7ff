# SPDX-License-Identifier: Apache-2.0
"""Constants, ranges, repetition, padding, flips and bands against PyTorch."""

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


def pads(rank, *entries):
    """entries: (framework dim, before, after)."""
    values = [0] * (2 * rank)
    for dim, before, after in entries:
        values[rank - 1 - dim], values[2 * rank - 1 - dim] = before, after
    return values


for dtype in (*FLOATS, I32, torch.int8):
    t = TYPE_NAMES[dtype]
    floating = dtype.is_floating_point
    low, high = (-1, 1) if floating else (-99, 99)
    x = rand(3, 5, 7, dtype=dtype, low=low, high=high)
    value = -2.5 if floating else -7
    # A constant, alone and as an operand of something else.
    case(f"constant_{t}", f"constant_{t}", [], [torch.full((3, 5, 7), value, dtype=dtype)], params("ns_ConstantKernel_Params", constant=value))
    c = suite.case(f"constant_{t}_operand")
    inner = c.temp((5, 7), dtype)
    c.node(f"constant_{t}", [], [inner], params("ns_ConstantKernel_Params", constant=value if floating else 3))
    c.node(f"add_fwd_{t}", [c.input(x // 2 if not floating else x), inner], [c.output((x // 2 if not floating else x) + (value if floating else 3))])
    c = suite.case(f"constant_{t}_shape_tensor")
    c.node(f"constant_{t}", [c.shape((2, 3))], [c.output(torch.full((2, 3), value, dtype=dtype), declare=False)], params("ns_ConstantKernel_Params", constant=value))
    case(f"fill_{t}", f"fill_fwd_{t}", [x, torch.tensor([value], dtype=dtype)], [torch.full_like(x, value)])
    for repeat in ((1, 2, 1), (3, 1, 2), (1, 1, 1)):  # Fastest first.
        case(f"tile_{t}_{repeat[0]}{repeat[1]}{repeat[2]}", f"tile_fwd_{t}", [x], [x.repeat(*reversed(repeat))],
             params("ns_TileKernel_Params", repeat=[*repeat, 1]), declare=repeat[0] == 1)
    case(f"tile_{t}_v2", f"tile_fwd_{t}", [x], [x.repeat(2, 1, 3)], params("ns_TileKernel_ParamsV2", repeat=[3, 1, 2, 1, 1]))
    case(f"repeat_pt_{t}", f"repeat_pt_fwd_{t}", [x], [x.repeat(2, 1, 3, 1)], params("ns_RepeatPt_Params", repeat=[2, 1, 3, 1], size=4))
    for axis in range(3):
        dim = 2 - axis
        case(f"repeat_{t}_{axis}", f"repeat_fwd_{t}", [x], [x.repeat_interleave(2, dim)], params("ns_RepeatKernel_Params", repeats=2, axis=axis))
        counts = torch.arange(x.shape[dim], dtype=I32) % 3
        case(f"repeat_{t}_{axis}_counts", f"repeat_fwd_{t}", [x, counts], [x.repeat_interleave(counts.long(), dim)],
             params("ns_RepeatKernelGaudiTF_Params", axis=axis))
        case(f"flip_{t}_{axis}", f"flip_fwd_{t}", [x], [x.flip(dim)], params("ns_FlipKernel_Params", axis=axis))
    case(f"flip_{t}_v2", f"flip_fwd_{t}", [x], [x.flip((0, 2))], params("ns_FlipKernel_ParamsV2", dims=[0, 2], num_dims=2))
    case(f"roll_{t}", f"roll_{t}", [x], [x.roll((2, -1), (2, 0))], params("ns_RollKernel_Params", shifts=[2, -1], dims=[0, 2]))
    case(f"pad_{t}", f"pad_fwd_{t}", [x], [F.pad(x, (1, 2, 0, 3, 2, 0), value=value)],
         params("ns_PadKernelEx_Params", value=value, pads=pads(3, (2, 1, 2), (1, 0, 3), (0, 2, 0))), declare=floating)
    case(f"pad_{t}_old", f"pad_fwd_{t}", [x], [F.pad(x, (1, 0), value=value)], params("ns_PadKernel_Params", value=value, pads=pads(3, (2, 1, 0))))
    tril = params("ns_MatrixBandPartKernel_triParams", numLower=-2 ** 31, numUpper=1, excludeDiag=1)
    triu = params("ns_MatrixBandPartKernel_triParams", numLower=-1, numUpper=2 ** 31 - 1, excludeDiag=1)
    case(f"tril_{t}", f"matrix_band_part_fwd_{t}", [x], [x.tril(1)], tril)
    case(f"triu_{t}", f"matrix_band_part_fwd_{t}", [x], [x.triu(-1)], triu)
    case(f"band_{t}", f"matrix_band_part_fwd_{t}", [x], [x.tril(2).triu(-1)], params("ns_MatrixBandPartKernel_Params", numLower=1, numUpper=2))
    case(f"band_{t}_all_below", f"matrix_band_part_fwd_{t}", [x], [x.tril(0)], params("ns_MatrixBandPartKernel_Params", numLower=-1, numUpper=0))
    for k in (0, 2, -1):
        d = rand(2, 4, dtype=dtype, low=low, high=high)
        case(f"matrix_diagonal_{t}_{k}", f"matrix_diagonal_fwd_{t}", [d], [torch.diag_embed(d, k)], params("ns_MatrixDiag_Params", kMin=k, kMax=k))
    wide = torch.zeros(2, 4, 7, dtype=dtype)
    for i in range(4):
        wide[:, i, i + 1] = d[:, i]
    case(f"matrix_diagonal_{t}_wide", f"matrix_diagonal_fwd_{t}", [d], [wide], params("ns_MatrixDiag_Params", kMin=1, kMax=1, rows=4, cols=7), declare=False)
    case(f"eye_{t}", f"eye_{t}", [], [torch.eye(4, 6).to(dtype)], params("ns_Eye_Params", rows=4, cols=6))
    case(f"memcpy_nd_{t}", f"memcpy_nd_{t}", [x], [x])

    if not floating:
        continue
    modes = {"REFLECT": "reflect", "EDGE": "replicate", "SYMMETRIC": None}
    for mode, name in modes.items():
        image = rand(1, 2, 5, 6, dtype=dtype)
        p = params("ns_PadKernelEx_Params", pads=pads(4, (3, 2, 1), (2, 0, 3)), mode="PAD_MODE_" + mode)
        leaf = image.double().requires_grad_()
        if name:
            y = F.pad(leaf, (2, 1, 0, 3), mode=name)
        else:
            y = torch.cat([leaf[..., :2].flip(3), leaf, leaf[..., -1:].flip(3)], 3)
            y = torch.cat([y, y[:, :, -3:].flip(2)], 2)
        dy = rand(*y.shape, dtype=dtype)
        y.backward(dy.double())
        case(f"pad_{t}_{mode}", f"pad_fwd_{t}", [image], [y.detach().to(dtype)], p)
        case(f"pad_bwd_{t}_{mode}", f"pad_bwd_{t}", [dy], [leaf.grad.to(dtype)], p)
    dy = rand(3, 8, 9, dtype=dtype)
    case(f"pad_bwd_{t}", f"pad_bwd_{t}", [dy], [dy[:, 1:6, 2:9].contiguous()], params("ns_PadKernelEx_Params", pads=pads(3, (2, 2, 0), (1, 1, 2))), declare=False)

case("range_f32", "range_f32", [], [torch.arange(1.0, 9.0, 0.75)], params("ns_RangeKernel_Params", start=1.0, limit=9.0, delta=0.75))
case("range_f32_down", "range_f32", [], [torch.arange(3.0, -2.0, -0.5)], params("ns_RangeKernel_Params", start=3.0, limit=-2.0, delta=-0.5))
case("range_bf16", "range_bf16", [], [torch.arange(0, 20, 2).bfloat16()], params("ns_RangeKernel_Params", start=0.0, limit=20.0, delta=2.0), declare=False)
case("range_i32", "range_i32", [], [torch.arange(-5, 17, 4, dtype=I32)], params("ns_RangeKernel_Params", start=-5, limit=17, delta=4))
big = 2 ** 40 + 7
case("constant_i64", "constant_i64", [], [torch.full((3,), big)], params("ns_ConstantKernel_Params_v2", const_low=7, const_high=2 ** 8))

x = rand(3, 5)
case("bad_range", "range_f32", [], [x], params("ns_RangeKernel_Params", start=1.0, limit=5.0, delta=-1.0)).fails("a range from 1")
case("bad_constant", "constant_f32", [], [x]).fails("needs parameters")
c = suite.case("bad_constant_sizes")
c.node("constant_f32", [], [c.output(x, declare=False)], params("ns_ConstantKernel_Params", constant=1.0)).fails("needs its sizes")
# Codes that only move stay what they are; a pad would have to be a code itself.
codes = torch.randint(-99, 99, (4, 6), dtype=torch.int8)
for guid, y, p in (("tile_fwd_i8", codes.repeat(2, 1), params("ns_TileKernel_Params", repeat=[1, 2, 1, 1])),
                   ("flip_fwd_i8", codes.flip(1), params("ns_FlipKernel_Params", axis=0))):
    c = suite.case(f"{guid}_quantised")
    c.node(guid, [c.input(codes, scale=0.5)], [c.output(y, scale=0.5)], p)
c = suite.case("tile_quantised_to_another_type")
c.node("tile_fwd_i8", [c.input(codes, scale=0.5)], [c.output(codes.to(torch.int32))],
       params("ns_TileKernel_Params", repeat=[1, 1, 1, 1])).fails("input 0 (x) is quantised")
case("bad_tile", "tile_fwd_f32", [x], [x], params("ns_TileKernel_Params", repeat=[0, 1, 1, 1])).fails("repeats 0 times")
case("bad_reflect", "pad_fwd_f32", [x], [x], params("ns_PadKernelEx_Params", pads=pads(2, (0, 3, 0)), mode="PAD_MODE_REFLECT")).fails("mirror more")
case("bad_pad_mode", "pad_fwd_f32", [x], [x], params("ns_PadKernelEx_Params", mode=9)).fails("unknown pad mode 9")
case("bad_diagonals", "matrix_diagonal_fwd_f32", [x], [x], params("ns_MatrixDiag_Params", kMin=0, kMax=1)).fails("more than one diagonal")
case("bad_flip", "flip_fwd_f32", [x], [x], params("ns_FlipKernel_Params", axis=2)).fails("axis 2")
case("bad_repeats", "repeat_fwd_f32", [x], [x], params("ns_RepeatKernel_Params", repeats=0)).fails("repeats 0 times")
case("bad_band", "matrix_band_part_fwd_f32", [rand(5)], [rand(5)], params("ns_MatrixBandPartKernel_Params")).fails("must be a matrix")

sys.exit(suite.main())
