# SPDX-License-Identifier: Apache-2.0
"""Products whose tiles strain SRAM: what does not fit goes through HBM. Operands repeat along their slowest dims, so that
files stay small; every part of a result must be the same."""

import struct

import torch.nn.functional as F

from cases import *
from layer_params import params

suite = Suite()
BF16, F32 = torch.bfloat16, torch.float32


def flags(a, b):
    return struct.pack("??", a, b)


def repeated(part, copies, tolerance=None):
    """A check that a result is `copies` times `part`."""
    def check(got):
        if got.numel() != copies * part.numel():
            return f"has {got.numel()} elements"
        parts = got.reshape(copies, *part.shape)
        for i in range(copies):
            if not torch.equal(parts[i], parts[0]):
                return f"part {i} is not what part 0 is"
        return compare(parts[0], part, tolerance)
    return check


def result(c, part, outer, tolerance=None):
    copies = 1
    for size in outer:
        copies *= size
    return c.output(part.expand(*outer, *part.shape), check=repeated(part, copies, tolerance))


def many(c, part, outer):
    return c.input(part.expand(*outer, *part.shape))


def attention_backward(name, outer, queries, keys, width, dtype, given=False):
    q, k, v, dy = (rand(n, width, dtype=dtype) for n in (queries, keys, keys, queries))
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    p = torch.softmax(leaves[0] @ leaves[1].T * 0.125, -1)
    (p @ leaves[2]).backward(dy.double())
    c = suite.case(name)
    c.node(f"sdpa_bwd_{TYPE_NAMES[dtype]}", [many(c, t, outer) for t in (dy, q, k, v, p.detach().to(dtype))],
           [result(c, t.grad.to(dtype), outer, 2e-2 if dtype == BF16 else 1e-4) for t in leaves], params("ns_Sdpa_Params", scale=0.125))


def feed_forward(name, outer, rows, width, hidden, dtype, shared=False, tail=None, activation="gelu"):
    """act(x a) b, in each part, with weights of their own or shared ones."""
    x, a, b = rand(rows, width, dtype=dtype), rand(width, hidden, dtype=dtype), rand(hidden, width, dtype=dtype)
    h = (x.double() @ a.double()).to(dtype)
    act = {"gelu": lambda t: F.gelu(t.double()), "relu": lambda t: t.double().relu(), "softmax": lambda t: torch.softmax(t.double(), -1)}[activation](h).to(dtype)
    y = (act.double() @ b.double()).to(dtype)
    c = suite.case(name)
    weights = [c.input(a), c.input(b)] if shared else [many(c, a, outer), many(c, b, outer)]
    product, active = (c.temp((*outer, rows, hidden), dtype) for _ in range(2))
    guid = "batch_gemm" if outer else "gemm"
    c.node(guid, [many(c, x, outer), weights[0]], [product])
    p = params("ns_Softmax_Params", dim=0) if activation == "softmax" else b""
    c.node(f"{activation}_fwd_{TYPE_NAMES[dtype]}", [product], [active], p)
    c.node(guid, [active, weights[1]], [result(c, y, outer, 3e-2 if dtype == BF16 else 1e-4)])


attention_backward("sdpa_bwd_4x32_256_keys_bf16", (4, 32), 256, 256, 64, BF16)
attention_backward("sdpa_bwd_8_heads_f32", (8,), 100, 256, 64, F32)
attention_backward("sdpa_bwd_one_head_bf16", (1, 1), 1024, 256, 32, BF16)
attention_backward("sdpa_bwd_long_rows_f32", (1, 2), 3, 40000, 8, F32)
feed_forward("gelu_chain_6_bf16", (6,), 3072, 16, 688, BF16)
feed_forward("gelu_chain_3072_bf16", (3072,), 6, 8, 688, BF16)
feed_forward("gelu_chain_688_f32", (688,), 6, 8, 3072, F32)
feed_forward("gelu_chain_6_shared", (6,), 688, 16, 3072, F32, shared=True)
feed_forward("softmax_chain", (3, 2), 300, 24, 2500, BF16, activation="softmax")
# A row of the product alone is beyond a tile, and columns are never cut.
for dtype, columns in ((F32, 3500000), (BF16, 7000000)):
    x, block = rand(3, 1, dtype=dtype), rand(1, 1000, dtype=dtype)
    c = suite.case(f"rows_beyond_a_tile_{TYPE_NAMES[dtype]}")
    w = c.tensor((1, columns), dtype, c.section("persistent"), data=to_bytes(block).hex())
    product, active = c.temp((3, columns), dtype), c.temp((3, columns), dtype)
    c.node("gemm", [c.input(x), w], [product])
    c.node(f"relu_fwd_{TYPE_NAMES[dtype]}", [product], [active])
    largest = (x.double() @ block.double()).to(dtype).relu().amax(1, keepdim=True)
    c.node(f"reduce_max_fwd_{TYPE_NAMES[dtype]}", [active], [c.output(largest)], params("ns_Reduction_Params", reductionDimension=0))

if __name__ == "__main__":
    sys.exit(suite.main())
