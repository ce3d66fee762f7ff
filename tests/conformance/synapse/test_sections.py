#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors that share bytes of a section: over node types, who reads and writes them in which order, and what has none.

Each family is a way to share memory, and each runs over node types: the values say which bytes a reader saw."""
from cases import *

import struct

suite = Suite()
F32, BF16, I32, I8 = torch.float32, torch.bfloat16, torch.int32, torch.int8


def transposed(x):
    return x.t().contiguous()


TRANSPOSE = struct.pack("=5II", 1, 0, 2, 3, 4, 2)

# Nodes of one operand whose result has the operand's sizes: name, guid, parameters, types, torch.
UNARY = [
    ("relu", "relu_fwd_{}", b"", (F32, BF16), torch.relu),
    ("neg", "neg_fwd_{}", b"", (F32, BF16, I32), torch.neg),
    ("abs", "abs_fwd_{}", b"", (F32, BF16, I32), torch.abs),
    ("sigmoid", "sigmoid_fwd_{}", b"", (F32,), lambda x: torch.sigmoid(x.double()).to(x.dtype)),
    ("tanh", "tanh_fwd_{}", b"", (F32,), lambda x: torch.tanh(x.double()).to(x.dtype)),
    ("identity", "identity", b"", (F32, I8), torch.clone),
    ("memcpy", "memcpy", b"", (F32, I32), torch.clone),
    ("transpose", "transpose", TRANSPOSE, (F32, BF16, I8), transposed),
]
# Nodes of two.
BINARY = [
    ("add", "add_fwd_{}", b"", (F32, BF16, I32), torch.add),
    ("sub", "sub_fwd_{}", b"", (F32, I32), torch.sub),
    ("mult", "mult_fwd_{}", b"", (F32, BF16), torch.mul),
    ("max", "max_fwd_{}", b"", (F32, I32), torch.maximum),
    ("gemm", "gemm", struct.pack("??", False, False), (F32, BF16), lambda a, b: (a.double() @ b.double()).to(a.dtype)),
]
SIZE = 6


def value(dtype, shape=(SIZE, SIZE)):
    return rand(*shape, dtype=dtype, low=-2 if dtype.is_floating_point else -50, high=2 if dtype.is_floating_point else 50)


def bytes_of(x):
    return x.numel() * x.element_size()


for name, guid, params, types, f in UNARY:
    for dtype in types:
        kind, node = TYPE_NAMES[dtype], guid.format(TYPE_NAMES[dtype])
        x, z = value(dtype), value(dtype)

        # The result lies where the operand lies.
        c = suite.case(f"in_place_{name}_{kind}")
        s = c.section("persistent")
        c.node(node, [c.input(x, section=s)], [c.output(f(x), section=s)], params)

        # Another node, created first, reads what the launch began with.
        c = suite.case(f"read_first_{name}_{kind}")
        s = c.section("persistent")
        old = c.input(x, section=s, name="old")
        c.node("identity", [old], [c.output(x, name="seen")])
        c.node(node, [old], [c.output(f(x), section=s, name="new")], params)

        # The same, although the reader waits for a node that was created after the writer.
        c = suite.case(f"read_first_waiting_{name}_{kind}")
        s = c.section("persistent")
        old = c.input(x, section=s, name="old")
        later = c.temp(z.shape, dtype)
        c.node("max_fwd_" + kind if dtype != I8 else "max_fwd_i8", [old, later], [c.output(torch.maximum(x, z), name="seen")])
        c.node(node, [c.input(z)], [c.output(f(z), section=s, name="new")], params)
        c.node("identity", [c.input(z)], [later])

        # A reader behind the writer sees the new value, through a tensor of its own.
        c = suite.case(f"read_after_{name}_{kind}")
        s = c.section("persistent")
        c.node(node, [c.input(x)], [c.output(f(x), section=s, name="new")], params, name="writer")
        c.node("identity", [c.tensor(f(x).shape, dtype, s, name="view")], [c.output(f(x), name="seen")], after=["writer"])

        # Another node writes over it, then somebody reads through the first one's tensor: the newest bytes, or half of them.
        for part in (0, 1):
            c = suite.case(f"overwritten{part}_{name}_{kind}")
            s = c.section("persistent")
            first, second = f(x), f(z)
            tensor = c.tensor(first.shape, dtype, s, name="first")
            c.node(node, [c.input(x)], [tensor], params, name="writer")
            c.node(node, [c.input(z)], [c.output(second, section=s, name="second", offset=part * bytes_of(first) // 2)], params,
                   name="over", after=["writer"])
            seen = first.flatten().clone()
            kept = part * first.numel() // 2
            seen[kept:] = second.flatten()[:first.numel() - kept]
            c.node("identity", [tensor], [c.output(seen.reshape(first.shape), name="seen")], after=["over"])

        # Half of the bytes: the reader sees the upper half of what was written, and what was there behind it.
        c = suite.case(f"partly_{name}_{kind}")
        s = c.section("persistent")
        both = torch.cat([x, z])
        half = bytes_of(x) // 2
        c.input(both, section=s, name="before")
        c.node(node, [c.input(x)], [c.output(f(x), section=s, name="new", offset=half)], params, name="writer")
        seen = both.flatten().clone()
        seen[x.numel() // 2:x.numel() // 2 + x.numel()] = f(x).flatten()
        c.node("identity", [c.input(both, section=s, name="whole")], [c.output(seen.reshape(both.shape), name="seen")], after=["writer"])

        # Without an order.
        c = suite.case(f"unordered_{name}_{kind}")
        s = c.section("persistent")
        c.node(node, [c.input(x)], [c.tensor(f(x).shape, dtype, s, name="new")], params, name="writer")
        c.node("identity", [c.tensor(f(x).shape, dtype, s, name="view")], [c.output(f(x), name="seen")], name="reader")
        c.fails("node 'writer'", "node 'reader'", f"bytes 0 to {bytes_of(x)}", "neither depends on the other")

for name, guid, params, types, f in BINARY:
    for dtype in types:
        kind, node = TYPE_NAMES[dtype], guid.format(TYPE_NAMES[dtype])
        a, b, d = value(dtype), value(dtype), value(dtype)

        # The result lies over either operand; over both, which lie at one place.
        for which in (0, 1):
            c = suite.case(f"over_operand{which}_{name}_{kind}")
            s = c.section("persistent")
            operands = [c.input(v, section=s if i == which else None) for i, v in enumerate((a, b))]
            c.node(node, operands, [c.output(f(a, b), section=s, name="new")], params)
        c = suite.case(f"over_both_{name}_{kind}")
        s = c.section("persistent")
        both = c.input(a, section=s)
        c.node(node, [both, both], [c.output(f(a, a), section=s, name="new")], params)

        # An update in place: forward and backward read the weights, created before the update that reads and writes.
        c = suite.case(f"training_{name}_{kind}")
        s = c.section("persistent")
        weights = c.input(a, section=s, name="weights")
        forward, back = c.temp(a.shape, dtype), c.temp(a.shape, dtype)
        y = f(b, a)
        c.node(node, [c.input(b), weights], [forward], params, name="forward")
        c.node(node, [forward, weights], [back], params, name="backward")
        grad = f(y, a)
        c.node("identity", [back], [c.output(grad, name="gradient")])
        c.node("sub_fwd_" + kind, [weights, c.input(d)], [c.output((a.double() - d.double()).to(dtype), section=s, name="updated")], name="update")

        # Three writes to one place, each with the one before as an operand: the last one stays.
        c = suite.case(f"chain_{name}_{kind}")
        s = c.section("persistent")
        x = c.input(a, section=s, name="x0")
        first, second = f(a, b), f(f(a, b), b)
        t1 = c.tensor(a.shape, dtype, s, name="x1")
        t2 = c.tensor(a.shape, dtype, s, name="x2")
        other = c.input(b)
        c.node(node, [x, other], [t1], params)
        c.node(node, [t1, other], [t2], params)
        c.node("identity", [t2], [c.output(second, section=s, name="x3")])

        # Two results of one section that overlap in part, in order: the second is whole, of the first what is left.
        c = suite.case(f"two_results_{name}_{kind}")
        s = c.section("persistent")
        half = bytes_of(a) // 2
        c.node(node, [c.input(a), c.input(b)], [c.tensor(a.shape, dtype, s, name="one", offset=half)], params, name="one_")
        c.node("identity", [c.input(d)], [c.tensor(d.shape, dtype, s, name="two")], name="two_", after=["one_"])
        whole = torch.cat([d.flatten(), f(a, b).flatten()[a.numel() // 2:]])
        c.node("identity", [c.input(torch.zeros_like(whole), section=s, name="all")], [c.output(whole, name="seen")], after=["two_"])

        c = suite.case(f"unordered_writers_{name}_{kind}")
        s = c.section("persistent")
        half = bytes_of(a) // 2
        c.node(node, [c.input(a), c.input(b)], [c.output(f(a, b), section=s, name="one", offset=half)], params, name="first")
        c.node("identity", [c.input(d)], [c.output(d, section=s, name="two")], name="second")
        c.fails("node 'first'", "node 'second'", "writes tensor 'one'", "writes tensor 'two'", f"bytes {half} to {2 * half} of section")

# The order may go over other nodes, by data and by control.
x, z = value(F32), value(F32)
for steps in (1, 2, 5):
    for by_control in (False, True):
        c = suite.case(f"order_over_{steps}_nodes_{'control' if by_control else 'data'}")
        s = c.section("persistent")
        at, after, kept = c.input(x), None, x
        first = c.tensor(x.shape, F32, s, name="first")
        c.node("neg_fwd_f32", [at], [first], name="begin")
        at, kept = first, -x
        for i in range(steps):
            following = c.temp(x.shape, F32)
            if by_control:
                c.node("identity", [c.input(z)], [following], name=f"step{i}", after=[f"step{i - 1}" if i else "begin"])
            else:
                c.node("neg_fwd_f32", [at], [following], name=f"step{i}")
                at, kept = following, -kept
        last = c.output(z if by_control else kept, section=s, name="last")
        c.node("identity", [c.input(z) if by_control else at], [last], after=[f"step{steps - 1}"] if by_control else None)

# Touching, but apart.
c = suite.case("neighbours")
s = c.section("persistent")
c.node("identity", [c.input(x)], [c.output(x, section=s, name="low")])
c.node("identity", [c.input(z)], [c.output(z, section=s, name="high", offset=bytes_of(x))])
# Sections of their own.
c = suite.case("two_sections")
c.node("identity", [c.input(x)], [c.output(x, name="low")])
c.node("identity", [c.input(z)], [c.output(z, name="high")])
# Constants of a section are read by any number of nodes.
c = suite.case("const_section_of_many_readers")
s = c.section("const")
t = c.tensor(x.shape, F32, s, host=x.numpy().tobytes().hex(), hosttype=4)
for i in range(4):
    c.node("identity", [t], [c.output(x, name=f"y{i}")])
# Workspace sections are memory, too.
c = suite.case("workspace_unordered")
s = c.section("workspace")
c.node("identity", [c.input(x)], [c.tensor(x.shape, F32, s, name="w1")], name="first")
w2 = c.tensor(x.shape, F32, s, name="w2", offset=4)
c.node("identity", [c.input(z)], [w2], name="second")
c.node("identity", [w2], [c.output(z)])
c.fails("'w1'", "'w2'", f"bytes 4 to {bytes_of(x)}")

if __name__ == "__main__":
    sys.exit(suite.main())
