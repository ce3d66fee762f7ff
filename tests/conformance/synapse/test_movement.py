# SPDX-License-Identifier: Apache-2.0
"""Nodes that move, rename, join and create elements."""

import struct

from api_params import axis_params, transpose_params, transpose_params_ndims
from cases import *

suite = Suite()
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def make(*shape, dtype):
    return rand(*shape, dtype=dtype, low=-1.0 if dtype.is_floating_point else 0, high=1.0 if dtype.is_floating_point else 100)


for dtype in TYPES:
    t = TYPE_NAMES[dtype]
    x = make(3, 4, 5, dtype=dtype)
    for perm in ((2, 0, 1), (0, 2, 1), (2, 1, 0), (0, 1, 2)):
        c = suite.case(f"transpose_{t}_{''.join(map(str, perm))}")
        c.node("transpose", [c.input(x)], [c.output(x.permute(perm).contiguous(), declare=False)], transpose_params(perm))
    c = suite.case(f"reshape_{t}")
    c.node("reshape", [c.input(x)], [c.output(x.reshape(6, 10))])
    c = suite.case(f"reshape_{t}_shape_tensor")
    c.node("reshape", [c.input(x), c.shape((15, 4))], [c.output(x.reshape(15, 4), declare=False)])
    b = make(4, 1, dtype=dtype)
    c = suite.case(f"broadcast_{t}")
    c.node("broadcast", [c.input(b)], [c.output(b.expand(3, 4, 5).contiguous())])
    for axis in range(3):
        d = 2 - axis
        parts = [make(*[s if i != d else n for i, s in enumerate((3, 4, 5))], dtype=dtype) for n in (2, 1, 6)]
        whole = torch.cat([p.cpu() for p in parts], d)
        c = suite.case(f"concat_{t}_{axis}")
        c.node("concat", [c.input(p) for p in parts], [c.output(whole, declare=False)], axis_params(axis))
        c = suite.case(f"split_{t}_{axis}")
        c.node("split", [c.input(whole)], [c.output(p) for p in parts], axis_params(axis))
    c = suite.case(f"identity_{t}")
    c.node("identity", [c.input(x)], [c.output(x)])
    c = suite.case(f"memcpy_{t}")
    c.node("memcpy", [c.input(x)], [c.output(x)])
    c = suite.case(f"memset_{t}")
    c.node("memset", [], [c.output(torch.zeros(3, 5, dtype=dtype))])

x = rand(2, 1, 3, 4)
p6 = (5, 0, 3, 1, 4, 2)
x6 = rand(2, 3, 2, 2, 3, 4)
c = suite.case("transpose_6d")
c.node("transpose", [c.input(x6)], [c.output(x6.permute(p6).contiguous())], transpose_params_ndims(p6))
c = suite.case("transpose_suffix")
c.node("transpose_f32", [c.input(x)], [c.output(x.permute(0, 1, 3, 2).contiguous())], transpose_params((0, 1, 3, 2)))
for axis in range(5):
    c = suite.case(f"expand_dims_{axis}")
    c.node("expand_dims", [c.input(x)], [c.output(x.unsqueeze(4 - axis), declare=False)], axis_params(axis))
c = suite.case("squeeze_axis")
c.node("squeeze", [c.input(x)], [c.output(x.squeeze(1), declare=False)], axis_params(2))
c = suite.case("squeeze_all")
c.node("squeeze", [c.input(rand(1, 1, 3, 1))], [c.output(torch.zeros(3), declare=False)])
c.expected.clear()  # The sizes alone.
y = rand(1, 2, 1, 3, 1)
c = suite.case("squeeze_some")
c.node("squeeze", [c.input(y)], [c.output(y.reshape(1, 2, 3))])
for axis in range(4):
    c = suite.case(f"flatten_{axis}")
    c.node("flatten", [c.input(x)], [c.output(x.flatten(3 - axis).reshape(-1, *x.flatten(3 - axis).shape[-1:]), declare=False)], axis_params(axis))
c = suite.case("concat_shape_tensor")
c.node("concat", [c.input(x), c.input(x), c.shape((4, 1, 3, 4))], [c.output(torch.cat([x, x]))], axis_params(3))
c = suite.case("split_infers_last")
c.node("split", [c.input(x)], [c.output(x[..., :1].contiguous()), c.output(x[..., 1:].contiguous(), declare=False)], axis_params(0))
u = rand(3, 4, dtype=torch.int32, high=100, low=-100)
c = suite.case("reinterpret_same")
c.node("reinterpret_cast", [c.input(u)], [c.output(u)])
c = suite.case("memset_shape_tensor")
c.node("memset", [c.shape((2, 3))], [c.output(torch.zeros(2, 3), declare=False)])
big = rand(300, 257)
c = suite.case("transpose_big")
c.node("transpose", [c.input(big)], [c.output(big.T.contiguous())], transpose_params((1, 0)))
c = suite.case("empty_concat")
c.node("concat", [c.input(rand(0, 4)), c.input(big[:3, :4].contiguous())], [c.output(big[:3, :4].contiguous())], axis_params(1))

bad = lambda name: suite.case(f"bad_{name}")
c = bad("transpose_rank")
c.node("transpose", [c.input(x)], [c.output(x)], transpose_params((0, 1, 2)), name="tr").fails("node 'tr' (transpose)", "tensorDim is 3", "rank 4")
c = bad("transpose_twice")
c.node("transpose", [c.input(x)], [c.output(x)], struct.pack("<6I", 0, 1, 1, 3, 0, 4)).fails("the permutation is none", "entry 2 is 1")
c = bad("transpose_params")
c.node("transpose", [c.input(x)], [c.output(x)], b"\0" * 20).fails("parameters of 20 bytes", "synTransposeParams")
c = bad("reshape")
c.node("reshape", [c.input(x)], [c.output(rand(5, 5))]).fails("cannot reshape {4, 3, 1, 2} to {5, 5}")
c = bad("reshape_unknown")
c.node("reshape", [c.input(x)], [c.output(x, declare=False)]).fails("output 0 (Y) needs its sizes")
c = bad("broadcast")
c.node("broadcast", [c.input(rand(3))], [c.output(rand(2, 4))]).fails("cannot broadcast {3} to {4, 2}")
c = bad("concat")
c.node("concat", [c.input(rand(2, 3)), c.input(rand(2, 4))], [c.output(rand(4, 3))], axis_params(1)).fails("input 1", "{4, 2}", "axis 1")
c = bad("concat_axis")
c.node("concat", [c.input(rand(2, 3)), c.input(rand(2, 3))], [c.output(rand(4, 3))], axis_params(2)).fails("axis 2 is outside of rank 2")
c = bad("concat_types")
c.node("concat", [c.input(rand(2, 3)), c.input(rand(2, 3, dtype=torch.bfloat16))], [c.output(rand(4, 3))], axis_params(1)).fails("input 1", "bf16", "f32")
c = bad("split_sum")
c.node("split", [c.input(rand(2, 5))], [c.output(rand(2, 2)), c.output(rand(2, 2))], axis_params(0)).fails("together 4", "has 5")
c = bad("squeeze")
c.node("squeeze", [c.input(rand(2, 3))], [c.output(rand(3))], axis_params(1)).fails("axis 1 has size 2")
c = bad("flatten_axis")
c.node("flatten", [c.input(rand(2, 3))], [c.output(rand(2, 3))], axis_params(2)).fails("axis 2 is outside of rank 2")
c = bad("identity_type")
c.node("identity", [c.input(rand(2, 3))], [c.output(rand(2, 3, dtype=torch.bfloat16))]).fails("output 0 (Y) is bf16", "one width")

sys.exit(suite.main())
