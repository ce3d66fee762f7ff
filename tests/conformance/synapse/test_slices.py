# SPDX-License-Identifier: Apache-2.0
"""Slices, their gradients, writing into slices, and strided views."""

import struct

from api_params import slice_params, strided_params, take
from cases import *

suite = Suite()


x = rand(4, 6, 7)
SLICES = {
    "one": [(0, 1, 5, 1)], "two": [(0, 1, 5, 1), (2, 1, 3, 1)], "all": [(0, 2, 7, 1), (1, 0, 4, 1), (2, 3, 4, 1)],
    "steps": [(0, 0, 7, 2), (1, 1, 6, 3)], "step_start": [(0, 1, 7, 3), (2, 0, 4, 2)], "beyond": [(1, 2, 100, 1)], "whole": [(0, 0, 7, 1)],
}
for name, entries in SLICES.items():
    piece = take(x, entries).contiguous()
    for form in ("5", "ndims", "v2"):
        p = slice_params(entries, form)
        c = suite.case(f"slice_{name}_{form}")
        c.node("slice", [c.input(x)], [c.output(piece, declare=False)], p)
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int8):
        t = TYPE_NAMES[dtype]
        low = -1 if dtype.is_floating_point else 1
        g = rand(*piece.shape, dtype=dtype, low=low, high=100 if low == 1 else 1)
        base = rand(4, 6, 7, dtype=dtype, low=low, high=100 if low == 1 else 1)
        dx = torch.zeros(4, 6, 7, dtype=dtype)
        take(dx, entries).copy_(g)
        c = suite.case(f"strided_slice_grad_{name}_{t}")
        c.node("strided_slice_grad", [c.input(g)], [c.output(dx)], slice_params(entries))
        inserted = base.clone()
        take(inserted, entries).copy_(g)
        c = suite.case(f"slice_insert_{name}_{t}")
        c.node("slice_insert", [c.input(base), c.input(g)], [c.output(inserted, declare=False)], slice_params(entries))
c = suite.case("slice_suffix")
c.node("slice_f32", [c.input(x)], [c.output(x[1:3])], slice_params([(2, 1, 3, 1)]))
c = suite.case("slice_grad_shape_tensor")
dx = torch.zeros(4, 6, 7)
g = rand(2, 6, 7)
dx[1:3] = g
c.node("strided_slice_grad", [c.input(g), c.shape((4, 6, 7))], [c.output(dx, declare=False)], slice_params([(2, 1, 3, 1)]))
c = suite.case("slice_host_starts")
host = struct.pack("<11Q", 3, 2, 1, 1, 0, 0, 1, 2, 0, 0, 0)  # dims, steps, starts
c.node("slice", [c.input(x), c.shape((4, 3, 3)), c.host(host)], [c.output(x[:, 2:5, 1:7:2].contiguous(), declare=False)])
c = suite.case("insert_nan")  # What is not written stays, what is replaced does not shine through.
base, g = torch.full((5, 6), float("nan")), rand(3, 2)
expected = base.clone()
expected[0:5:2, 1:6:3] = g
c.node("slice_insert", [c.input(base), c.input(g)], [c.output(expected)], slice_params([(0, 1, 6, 3), (1, 0, 5, 2)]))
for begin, end, axis in ((1, 3, 0), (0, 2, 1), (2, 99, 2), (0, 7, 0)):
    d = 2 - axis
    piece = x.narrow(d, begin, min(end, x.shape[d]) - begin).contiguous()
    c = suite.case(f"slice_axis_{axis}_{begin}_{end}")
    c.node("slice_axis", [c.input(x)], [c.output(piece, declare=False)], struct.pack("<3I", axis, begin, end))
    c = suite.case(f"slice_axis_v2_{axis}_{begin}_{end}")
    c.node("slice_axis", [c.input(x)], [c.output(piece)], struct.pack("<2I2Q", axis, 0, begin, end))

VIEWS = {  # of 120 elements: sizes, strides, offset
    "dense": ((5, 24), (24, 1), 0), "transposed": ((6, 20), (1, 6), 0), "permuted3": ((4, 5, 6), (1, 24, 4), 0),
    "window": ((5, 4), (24, 3), 2), "columns": ((10, 3), (12, 1), 5), "every_second": ((30,), (2,), 1), "tail": ((3, 7), (40, 1), 33),
    "broadcast": ((3, 5, 4), (0, 24, 1), 7), "scalar": ((1,), (1,), 119), "overlap": ((10, 4), (2, 1), 3), "diagonal": ((5,), (25,), 0),
    "uneven": ((3, 3), (7, 5), 1), "ones": ((1, 6, 1, 4), (999, 4, 5, 1), 8), "rank0ish": ((1, 1), (3, 9), 50),
}
flat = rand(2, 60)
for name, (shape, strides, offset) in VIEWS.items():
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        values = flat.to(dtype) if dtype.is_floating_point else rand(2, 60, dtype=dtype, low=0, high=100)
        view = torch.as_strided(values, shape, strides, offset).contiguous()
        c = suite.case(f"strided_view_{name}_{TYPE_NAMES[dtype]}")
        c.node("strided_view", [c.input(values)], [c.output(view)], strided_params(offset, strides))
        if name in ("broadcast", "overlap"):
            continue
        piece = rand(*shape, dtype=dtype, low=0, high=1 if dtype.is_floating_point else 100)
        inserted = values.clone()
        torch.as_strided(inserted, shape, strides, offset).copy_(piece)
        c = suite.case(f"strided_insert_{name}_{TYPE_NAMES[dtype]}")
        c.node("strided_insert", [c.input(values), c.input(piece)], [c.output(inserted, declare=False)], strided_params(offset, strides))

bad = lambda name: suite.case(f"bad_{name}")
c = bad("slice_axis")
c.node("slice", [c.input(x)], [c.output(x)], slice_params([(3, 0, 2, 1)]), name="sl").fails("node 'sl' (slice)", "axis 3 is outside of rank 3")
c = bad("slice_step")
c.node("slice", [c.input(x)], [c.output(x)], slice_params([(1, 0, 2, 0)])).fails("step of axis 1 is 0")
c = bad("slice_start")
c.node("slice", [c.input(x)], [c.output(x)], slice_params([(1, 7, 9, 1)])).fails("start 7 of axis 1 is outside of its size 6")
c = bad("slice_sizes")
c.node("slice", [c.input(x)], [c.output(x)], slice_params([(1, 0, 2, 1)])).fails("{7, 6, 4}", "{7, 2, 4}")
c = bad("slice_params")
c.node("slice", [c.input(x)], [c.output(x)], b"\0" * 16).fails("parameters of 16 bytes", "synSliceParams")
c = bad("slice_no_params")
c.node("slice", [c.input(x)], [c.output(x)]).fails("needs parameters")
c = bad("slice_rank")
c.node("slice", [c.input(rand(1, 1, 1, 1, 2, 2))], [c.output(rand(2))], slice_params([(1, 0, 2, 1)])).fails("5 dims, the operand has 6")
c = bad("slice_axis_range")
c.node("slice_axis", [c.input(x)], [c.output(x)], struct.pack("<3I", 1, 4, 2)).fails("begin 4 and end 2")
c = bad("insert_piece")
c.node("slice_insert", [c.input(x), c.input(rand(2, 2))], [c.output(x)], slice_params([(1, 0, 2, 1)])).fails("input 1 (piece)", "{7, 2, 4}")
c = bad("grad_piece")
c.node("strided_slice_grad", [c.input(rand(4, 3, 7))], [c.output(x)], slice_params([(1, 0, 2, 1)])).fails("input 0 (dY)", "{7, 2, 4}")
c = bad("view_reach")
c.node("strided_view", [c.input(flat)], [c.output(rand(3, 3))], strided_params(0, (60, 1))).fails("reaches element 122; there are 120")
c = bad("view_overflow")
c.node("strided_view", [c.input(flat)], [c.output(rand(3, 3))], strided_params(0, (2**63, 1))).fails("reaches element 2^63")
c = bad("insert_reach")
c.node("strided_insert", [c.input(flat), c.input(rand(3, 3))], [c.output(flat)], strided_params(118, (1, 1))).fails("reaches element 122")

sys.exit(suite.main())
