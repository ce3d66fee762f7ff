# SPDX-License-Identifier: Apache-2.0
"""What nodes share: sections, in-place tensors, constants, control dependencies, memory orders, free sizes, errors."""

import struct

from cases import *

suite = Suite()
f32 = torch.float32
AXIS = lambda a: struct.pack("<I", a)
GEMM = lambda a, b: struct.pack("??", a, b)

a, b, d = rand(4, 4), rand(4, 4), rand(4, 4)
AB = (a.double() @ b.double()).float()

c = suite.case("chain_of_temporaries")
t = c.temp()
c.node("gemm", [t, c.input(d)], [c.output((a.double() @ b.double() @ d.double()).float())], name="second")
c.node("gemm", [c.input(a), c.input(b)], [t], name="first")  # Created in the wrong order.

c = suite.case("persistent_intermediate")
t = c.output(AB)
c.node("gemm", [c.input(a), c.input(b)], [t])
c.node("gemm", [t, c.input(d)], [c.output((AB.double() @ d.double()).float())])

c = suite.case("constant")
c.node("gemm", [c.input(a), c.const(b)], [c.output(AB)])
c = suite.case("constant_of_another_type")
t = c.tensor((4, 4), torch.bfloat16, None, host=b.numpy().tobytes().hex(), hosttype=4)
c.node("gemm", [c.input(a.bfloat16()), t], [c.output((a.bfloat16().double() @ b.bfloat16().double()).bfloat16())])
c = suite.case("constant_section")
s = c.section("const")
t = c.tensor((4, 4), f32, s, host=b.numpy().tobytes().hex(), hosttype=4)
c.node("gemm", [c.input(a), t], [c.output(AB)])

# A weight is read, its new value is written through another tensor at the same place and read again through a third.
c = suite.case("in_place_update")
s = c.section("persistent")
old = c.input(b, section=s, name="old")
new = c.output(AB, section=s, name="new")
again = c.tensor((4, 4), f32, s, name="again")
c.node("gemm", [c.input(a), old], [new], name="update")
c.node("gemm", [again, c.input(d)], [c.output((AB.double() @ d.double()).float())], name="reader", after=["update"])
# The reader that comes first sees the old value.
c = suite.case("read_before_update")
s = c.section("persistent")
old = c.input(b, section=s, name="old")
c.node("gemm", [old, c.input(d)], [c.output((b.double() @ d.double()).float())], name="reader")
c.node("gemm", [c.input(a), old], [c.output(AB, section=s, name="new")], name="update", after=["reader"])
# One tensor on both sides of a node.
c = suite.case("read_and_written")
s = c.section("persistent")
t = c.input(b, section=s, name="weight")
c.expected["weight"] = (AB, None)
c.node("gemm", [c.input(a), t], [t])
# Two writes to one place: the later stays.
c = suite.case("written_twice")
s = c.section("persistent")
c.node("gemm", [c.input(a), c.input(b)], [c.tensor((4, 4), f32, s, name="first")], name="one")
c.node("gemm", [c.input(d), c.input(b)], [c.output((d.double() @ b.double()).float(), section=s, name="second")], name="two", after=["one"])
# A part of a place is written, the whole is read; and the other way round.
c = suite.case("partial_write")
s = c.section("persistent")
whole = c.input(torch.cat([a, d]), section=s, name="whole")
c.node("gemm", [c.input(a), c.input(b)], [c.output(AB, section=s, name="upper", offset=64)], name="w")
c.node("identity", [whole], [c.output(torch.cat([a, AB]))], after=["w"])
c = suite.case("partial_read")
s = c.section("persistent")
c.node("gemm", [c.input(torch.cat([a, d])), c.input(b)], [c.output((torch.cat([a, d]).double() @ b.double()).float(), section=s, name="whole")], name="w")
c.node("identity", [c.tensor((4, 4), f32, s, name="low", offset=64)], [c.output((d.double() @ b.double()).float())], after=["w"])
c = suite.case("workspace_section")
s = c.section("workspace")
c.node("gemm", [c.input(a), c.input(b)], [c.tensor((4, 4), f32, s, name="w1")], name="w")
c.node("identity", [c.tensor((16,), f32, s, name="w2")], [c.output(AB.flatten())], after=["w"])

# Persistent tensors in another memory order: torch's weights as SynapseAI's bridge keeps them.
x = rand(2, 3, 4)
c = suite.case("permuted_input")
c.node("identity", [c.tensor((2, 3, 4), f32, c.section("persistent"), perm="2,0,1", data=x.permute(1, 2, 0).contiguous().numpy().tobytes().hex())],
       [c.output(x)])
c = suite.case("permuted_output")
t = c.tensor((2, 3, 4), f32, c.section("persistent"), name="y", perm="2,0,1")
c.node("identity", [c.input(x)], [t])
c.expected["y"] = (x.permute(1, 2, 0).contiguous().reshape(2, 3, 4), None)
c = suite.case("strides_in_bytes")  # Sizes {4, 3, 2}, index 2 fastest.
c.node("identity", [c.tensor((2, 3, 4), f32, c.section("persistent"), strides="8,32,4", data=x.permute(1, 2, 0).contiguous().numpy().tobytes().hex())],
       [c.output(x)])

# Results that are operands or constants, one value for two results, a result that nobody keeps.
c = suite.case("operand_twice")
t = c.input(a)
c.node("identity", [t], [c.output(a)])
c.node("identity", [t], [c.output(a)])
c = suite.case("unused_node")
c.node("gemm", [c.input(a), c.input(b)], [c.temp((4, 4), f32)])
c.node("gemm", [c.input(a), c.input(d)], [c.output((a.double() @ d.double()).float())])
c = suite.case("constant_result")
c.node("identity", [c.const(a)], [c.output(a)])
c = suite.case("names_repeat")
x2 = c.tensor((4, 4), f32, c.section("persistent"), name="same", data=a.numpy().tobytes().hex())
y2 = c.tensor((4, 4), f32, c.section("persistent"), name="same", data=b.numpy().tobytes().hex())
c.node("gemm", [x2, y2], [c.output(AB)])

# Free sizes: the actual ones are those of the inputs, results follow.
c = suite.case("free_batch")
x = rand(3, 5)
w = rand(5, 2)
t = c.tensor((8, 5), f32, c.section("persistent"), min="5,1", actual="5,3", data=x.numpy().tobytes().hex())
mid = c.tensor((8, 2), f32, None, min="2,1")
y = c.tensor((8, 2), f32, c.section("persistent"), name="y", min="2,1")
c.node("gemm", [t, c.input(w)], [mid])
c.node("identity", [mid], [y])
c.expected["y"] = ((x.double() @ w.double()).float(), None)
c = suite.case("free_reshape")
t = c.tensor((8, 6), f32, c.section("persistent"), min="6,1", actual="6,2", data=rand(2, 6).numpy().tobytes().hex())
y = c.tensor((8, 2, 3), f32, c.section("persistent"), name="y", min="3,2,1")
c.node("reshape", [t, c.tensor((8, 2, 3), torch.int32, None, type=1, min="3,2,1", actual="3,2,2")], [y])
c.expected["y"] = (from_bytes(bytes.fromhex(c.lines[1].split("data=")[1]), f32, (2, 2, 3)), None)
c = suite.case("free_reshape_declared")  # That the result has as many rows as x is what its bounds say.
t = c.tensor((8, 6), f32, c.section("persistent"), min="6,1", actual="6,2", data=rand(2, 6).numpy().tobytes().hex())
y = c.tensor((8, 2, 3), f32, c.section("persistent"), name="y", min="3,2,1")
c.node("reshape", [t], [y])
c.expected["y"] = (from_bytes(bytes.fromhex(c.lines[1].split("data=")[1]), f32, (2, 2, 3)), None)
c = suite.case("free_without_size")  # Sizes of no bounds that x has.
t = c.tensor((8, 6), f32, c.section("persistent"), min="6,1", actual="6,2", data=rand(2, 6).numpy().tobytes().hex())
c.node("reshape", [t], [c.tensor((7, 2, 3), f32, c.section("persistent"), min="3,2,1")]).fails("needs its sizes")
c = suite.case("free_outside")
t = c.tensor((8, 5), f32, c.section("persistent"), min="5,2", actual="5,1")
c.node("identity", [t], [c.tensor((8, 5), f32, c.section("persistent"), min="5,2")]).fails("actual sizes {5, 1}", "{5, 2} to {5, 8}")

# Shape tensors of other shape tensors.
c = suite.case("split_shape")
s1, s2 = c.tensor((2, 3), torch.int32, None, type=1), c.tensor((4, 3), torch.int32, None, type=1)
c.node("split_shape", [c.shape((6, 3))], [s1, s2], AXIS(1))
c.node("memset", [s2], [c.output(torch.zeros(4, 3), declare=False)])

c = suite.case("overlap_types")  # The bytes that were written, whatever they are read as.
s = c.section("persistent")
c.node("identity", [c.input(AB)], [c.output(AB, section=s)], name="w")
read = from_bytes(AB.numpy().tobytes(), torch.int16, (32,))
c.node("identity", [c.tensor((32,), torch.int16, s)], [c.output(read)], after=["w"])

# Wrong graphs.
bad = lambda name: suite.case(f"bad_{name}")
c = bad("cycle")
t, u = c.temp((4, 4), f32), c.temp((4, 4), f32)
c.node("gemm", [t, c.input(a)], [u], name="p")
c.node("gemm", [u, c.input(b)], [t], name="q").fails("cycle", "'p'", "'q'")
c = bad("two_producers")
t = c.output(AB)
c.node("identity", [c.input(a)], [t], name="p")
c.node("identity", [c.input(b)], [t], name="q").fails("node 'q'", "is written by node 'p'")
c = bad("no_producer")
c.node("gemm", [c.input(a), c.temp((4, 4), f32, name="lost")], [c.output(AB)]).fails("tensor 'lost'", "nothing writes it")
c = bad("no_type")
c.node("identity", [c.tensor((4, 4), None, c.section("persistent"), name="odd")], [c.output(AB)]).fails("tensor 'odd'", "no element type")
c = bad("no_sizes")
c.node("identity", [c.tensor(None, f32, c.section("persistent"), name="odd")], [c.output(AB)]).fails("tensor 'odd'", "no sizes")
c = bad("type_number")
c.lines.append("section persistent")
c.lines.append("tensor odd dtype=3 sizes=4 section=0")
c.sections, c.tensors = 1, 1
c.node("memset", [], [c.output(torch.zeros(4))]).fails("tensor 'odd'", "no element type 3")
c = bad("four_bits")
c.lines += ["section persistent", "tensor odd dtype=64 sizes=4 section=0"]
c.sections, c.tensors = 1, 1
c.node("memset", [], [c.output(torch.zeros(4))]).fails("tensor 'odd'", "int4")
c = bad("huge")
c.node("memset", [], [c.tensor((2**40, 2**40), f32, c.section("persistent"), name="huge")]).fails("tensor 'huge'", "too large")
c = bad("constant_bytes")
c.node("identity", [c.tensor((4, 4), f32, None, name="k", host="00" * 60, hosttype=4)], [c.output(AB)]).fails("tensor 'k'", "60 bytes")
c = bad("permutation")
c.node("identity", [c.tensor((4, 4), f32, c.section("persistent"), name="p", perm="0,0")], [c.output(AB)]).fails("tensor 'p'", "permutation")
c = bad("strides_missing")
c.node("identity", [c.tensor((4, 4), f32, c.section("persistent"), name="g", strides="4")], [c.output(AB)]).fails("tensor 'g'", "say nothing of dim 1")
c = bad("strides_overlap")
c.node("identity", [c.input(AB)], [c.tensor((4, 4), f32, c.section("persistent"), name="g", strides="4,8")]).fails("tensor 'g'", "several elements at one place", "stride of dim 1 is 8")
c = bad("shape_as_data")
c.node("gemm", [c.input(a), c.shape((4, 4))], [c.output(AB)]).fails("input 1 (B) must be a data tensor")
c = bad("too_many_operands")
c.node("transpose", [c.input(a), c.input(b)], [c.output(a)], struct.pack("<6I", 1, 0, 0, 0, 0, 2)).fails("has 2 inputs, takes 1")

sys.exit(suite.main())
