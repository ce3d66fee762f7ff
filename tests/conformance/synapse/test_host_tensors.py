# SPDX-License-Identifier: Apache-2.0
"""Numbers that nodes read of host-to-device tensors and of shape tensors in the place of their parameters."""

import struct

from api_params import axis_params, slice_params, strided_params
from cases import *
from cases import HOST_TENSOR, to_bytes
from layer_params import params

suite = Suite()


def host(c, values):
    """A host-to-device tensor of a torch tensor's elements; `values` may be two of them: maxima and minima."""
    both = values if isinstance(values, tuple) else (values,)
    data = b"".join(to_bytes(v) for v in both)
    return c.tensor(both[0].shape, both[0].dtype, None, type=HOST_TENSOR, host=data.hex(), hosttype=SYN_TYPES[both[0].dtype])


def case(name, guid, inputs, expected, p=b"", declare=True, tolerance=None):
    """inputs(c) makes the operands."""
    c = suite.case(name)
    expected = expected if isinstance(expected, list) else [expected]
    c.node(guid, inputs(c), [c.output(e, declare=declare, tolerance=tolerance) for e in expected], p)
    return c


f32, i32, i64 = torch.float32, torch.int32, torch.int64
ints = lambda *values, dtype=i32: torch.tensor(values, dtype=dtype)

for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.int16):
    t = TYPE_NAMES[dtype]
    for start, limit, delta in ((0, 12, 1), (3, 20, 4), (10, -2, -3), (5, 6, 7), (5, 5, 1)):
        expected = torch.arange(start, limit, delta).to(dtype)
        numbers = torch.tensor([start, limit, delta], dtype=f32 if dtype.is_floating_point else i32)
        if expected.numel():
            case(f"range_{t}_{start}_{limit}", f"range_{t}", lambda c: [host(c, numbers)], expected, declare=False)
        case(f"range_{t}_{start}_{limit}_shape", f"range_{t}", lambda c: [c.shape(expected.shape), host(c, numbers)], expected)
case("range_beside_parameters", "range_f32", lambda c: [None, host(c, torch.tensor([0.0, 1.0, 0.25]))], torch.tensor([0, 0.25, 0.5, 0.75]),
     params("ns_RangeKernel_Params", start=9.0, limit=8.0, delta=7.0))

x = rand(2, 3, 4)
pad = torch.nn.functional.pad
for mode, word in (("constant", "CONSTANT"), ("reflect", "REFLECT"), ("replicate", "EDGE")):
    for pads in ((1, 2, 0, 0, 0, 0), (0, 0, 1, 1, 0, 0), (2, 1, 1, 0, 0, 0)):
        # Behind what is before each dim comes what is after each.
        words = [pads[0], pads[2], pads[4], pads[1], pads[3], pads[5]] + [0] * 4
        y = pad(x[None], pads[:4], mode=mode)[0] if mode != "constant" else pad(x, pads, value=0.5)
        case(f"pad_{mode}_{''.join(map(str, pads))}", "pad_fwd_f32", lambda c: [c.input(x), None, host(c, ints(*words))], y,
             params("ns_PadKernelEx_Params", mode=f"PAD_MODE_{word}", value=0.5, pads=[3] * 10), declare=False)
case("pad_without_parameters", "pad_fwd_f32", lambda c: [c.input(x), host(c, ints(1, 0, 0, 0, 0, 2, 0, 0, 0, 0))], pad(x, (1, 0, 0, 0, 0, 2)), declare=False)

for times in ((2, 1, 1), (1, 3, 1), (2, 2, 2), (1, 1, 1)):
    words = ints(*reversed(times), 1, 1)
    for p in (params("ns_TileKernel_ParamsV2", repeat=[9] * 5), params("ns_TileKernel_Params", repeat=[9] * 4), b""):
        case(f"tile_{''.join(map(str, times))}_{len(p)}", "tile_fwd_f32", lambda c: [c.input(x), None, host(c, words)], x.repeat(*times), p, declare=False)

for axis in range(3):
    d = 2 - axis
    whole = rand(6, 7, 8)
    for sizes in ((1, 2, whole.shape[d] - 3), (0, whole.shape[d], 0)):
        for dtype in (i32, i64):
            case(f"split_{axis}_{sizes[0]}_{TYPE_NAMES[dtype]}", "split", lambda c: [c.input(whole), host(c, ints(*sizes, dtype=dtype))],
                 [p.contiguous() for p in whole.split(sizes, d)], axis_params(axis), declare=False)

# Slices of the sizes that a shape operand has; the ends are bounds.
long = rand(5, 12)
for start, step, count in ((0, 1, 12), (0, 1, 5), (3, 2, 4), (11, 5, 1), (2, 3, 0)):
    p = slice_params([(0, start, 12, step)])
    piece = long[:, start::step][:, :count].contiguous()
    case(f"slice_shape_{start}_{step}_{count}", "slice", lambda c: [c.input(long), c.shape(piece.shape)], piece, p, declare=False)
    dx = torch.zeros(5, 12)
    dx[:, start::step][:, :count] = piece
    if count == len(range(start, 12, step)):
        case(f"slice_grad_shape_{start}_{step}", "strided_slice_grad", lambda c: [c.input(piece), c.shape(dx.shape)], dx, p, declare=False)
case("slice_axis_shape", "slice_axis", lambda c: [c.input(long), c.shape((5, 3))], long[:, 2:5].contiguous(), struct.pack("<3I", 0, 2, 12), declare=False)

# Strides and an offset as sizes.
flat = rand(2, 60)
for name, shape, strides, offset in (("rows", (5, 24), (24, 1), 0), ("turned", (6, 20), (1, 6), 0), ("window", (5, 4), (24, 3), 2), ("last", (1,), (1,), 119)):
    view = torch.as_strided(flat, shape, strides, offset).contiguous()
    case(f"strided_view_{name}", "strided_view", lambda c: [c.input(flat), c.shape(shape), c.shape(strides), c.shape((offset,))], view, declare=False)
    piece = rand(*shape)
    inserted = flat.clone()
    torch.as_strided(inserted, shape, strides, offset).copy_(piece)
    case(f"strided_insert_{name}", "strided_insert", lambda c: [c.input(flat), c.input(piece), c.shape(strides), c.shape((offset,))], inserted, declare=False)

# Bounds are no values: what they say together need not fit.
c = case("bounds_of_a_view", "strided_view", lambda c: [c.input(flat), None, host(c, (ints(2, 0, 100, 0, 60, 0, 40, 0, *[0] * 8), ints(2, 0, 0, 0, 70, 0, 1, 0, *[0] * 8)))], torch.zeros(3, 4))
c = case("bounds_of_a_split", "split", lambda c: [c.input(flat), host(c, (ints(60, 60), ints(0, 0)))], [torch.zeros(2, 60), torch.zeros(2, 60)], axis_params(0))

bad = lambda name: suite.case(f"bad_{name}")
c = bad("range_numbers")
c.node("range_f32", [host(c, ints(0, 4))], [c.output(rand(4))]).fails("host data of 2 elements, and 3 are needed")
c = bad("range_delta")
c.node("range_f32", [host(c, ints(0, 4, 0))], [c.output(rand(4))]).fails("a range from 0 to 4 by 0")
c = bad("range_nothing_given")
c.node("range_f32", [], [c.output(rand(4))]).fails("needs parameters")
c = bad("pads_negative")
c.node("pad_fwd_f32", [c.input(x), host(c, ints(-1, 0, 0, 0, 0, 0))], [c.output(x)]).fails("-1 is no size")
c = bad("split_sum")
c.node("split", [c.input(flat), host(c, ints(1, 2))], [c.output(rand(2, 1)), c.output(rand(2, 2))], axis_params(0)).fails("together 3", "has 60")
c = bad("slice_outside")
c.node("slice", [c.input(long), c.shape((5, 7))], [c.temp()], slice_params([(0, 6, 12, 1)])).fails("7 elements from 6 on by 1", "12 elements of axis 0")
c = bad("strides_rank")
c.node("strided_view", [c.input(flat), c.shape((3, 4)), c.shape((4,)), c.shape((0,))], [c.temp()]).fails("has 1 strides, the view 2 dims")
c = bad("offset_rank")
c.node("strided_view", [c.input(flat), c.shape((3, 4)), c.shape((4, 1)), c.shape((0, 0))], [c.temp()]).fails("rank 2, must have 1")
c = bad("strides_reach")
c.node("strided_view", [c.input(flat), c.shape((3, 4)), c.shape((60, 1)), c.shape((0,))], [c.temp()]).fails("reaches element 123; there are 120")

if __name__ == "__main__":
    sys.exit(suite.main())
