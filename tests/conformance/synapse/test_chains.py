# SPDX-License-Identifier: Apache-2.0
"""Random chains of nodes that move elements, with products and in-place writes between them."""

import os
import random
import struct

from api_params import axis_params, slice_params, strided_params, take, transpose_params_ndims
from cases import *


def chain(suite, seed):
    r = random.Random(seed)
    dtype = r.choice((torch.float32, torch.bfloat16, torch.int32))
    c = suite.case(f"chain_{seed}")

    def fresh(shape):
        return rand(*shape, dtype=dtype, low=-1 if dtype.is_floating_point else -99, high=1 if dtype.is_floating_point else 99)

    shape = tuple(r.choice((1, 2, 3, 4, 5, 8)) for _ in range(r.randint(1, 4)))
    value = fresh(shape)
    tensor = c.input(value)

    def step(guid, inputs, result, p=b""):
        nonlocal tensor, value
        result = result.contiguous()
        kind = r.random()
        if kind < 0.3:
            out = c.output(result)
        else:
            out = c.temp(result.shape if guid in ("reshape", "broadcast", "strided_view") or kind < 0.6 else None, dtype)
        c.node(guid, inputs, [out], p)
        tensor, value = out, result

    def transpose():
        perm = list(range(value.dim()))
        r.shuffle(perm)
        step("transpose", [tensor], value.permute(perm), transpose_params_ndims(perm))

    def reshape():
        n, dims = value.numel(), []
        while n > 1 and len(dims) < 3:
            d = r.choice([d for d in range(1, n + 1) if n % d == 0])
            dims.append(d)
            n //= d
        dims.append(n)
        r.shuffle(dims)
        step("reshape", [tensor], value.reshape(dims))

    def entries():
        chosen = r.sample(range(value.dim()), r.randint(1, value.dim()))
        result = []
        for axis in chosen:
            size = value.shape[value.dim() - 1 - axis]
            start = r.randrange(size)
            end = r.randint(start + 1, size)
            if axis or start or end:
                result.append((axis, start, end, r.choice((1, 1, 2, 3))))
        return result

    def cut():
        e = entries()
        step("slice", [tensor], take(value, e), slice_params(e, r.choice(("ndims", "v2"))))

    def insert():
        e = entries()
        piece = fresh(take(value, e).shape)
        result = value.clone()
        take(result, e).copy_(piece)
        step("slice_insert", [tensor, c.input(piece)], result, slice_params(e, "v2"))

    def grow():
        """The gradient of a slice: zeros around the value."""
        e, whole = [], tuple(s + r.randint(0, 3) for s in value.shape)
        for axis in range(value.dim()):
            size, room = value.shape[value.dim() - 1 - axis], whole[value.dim() - 1 - axis]
            start = r.randint(0, room - size)
            e.append((axis, start, start + size, 1))
        result = torch.zeros(whole, dtype=dtype)
        take(result, e).copy_(value)
        out = c.output(result)
        c.node("strided_slice_grad", [tensor], [out], slice_params(e, "ndims"))
        go_on(out, result)

    def go_on(t, v):
        nonlocal tensor, value
        tensor, value = t, v

    def join():
        axis = r.randrange(value.dim())
        d = value.dim() - 1 - axis
        other = fresh([s if i != d else r.randint(1, 4) for i, s in enumerate(value.shape)])
        pair = [(tensor, value), (c.input(other), other)]
        if r.random() < 0.5:
            pair.reverse()
        step("concat", [p[0] for p in pair], torch.cat([p[1] for p in pair], d), axis_params(axis))

    def part():
        axis = r.randrange(value.dim())
        d = value.dim() - 1 - axis
        if value.shape[d] < 2:
            return
        at = r.randint(1, value.shape[d] - 1)
        low, high = (v.contiguous() for v in value.split([at, value.shape[d] - at], d))
        a, b = c.output(low), c.temp(high.shape, dtype)
        c.node("split", [tensor], [a, b], axis_params(axis))
        go_on(*r.choice([(a, low), (b, high)]))

    def spread():
        to = [r.randint(1, 3), *value.shape]
        to = [r.randint(2, 3) if s == 1 and r.random() < 0.5 else s for s in to]
        step("broadcast", [tensor], value.expand(to))

    def view():
        n = value.numel()
        dims, strides, reach = [], [], r.randrange(n)
        offset = reach
        for _ in range(r.randint(1, 3)):
            stride = r.choice((0, 1, 1, 2, 3, 5))
            size = r.randint(1, min(6, 1 + (n - 1 - reach) // stride) if stride else 3)
            reach += (size - 1) * stride
            dims.append(size)
            strides.append(stride)
        step("strided_view", [tensor], torch.as_strided(value.clone(), dims, strides, offset), strided_params(offset, strides))

    def product():
        if not dtype.is_floating_point or value.dim() < 2:
            return
        w = (fresh((value.shape[-1], r.randint(1, 6))))
        step("batch_gemm", [tensor, c.input(w)], (value.double() @ w.double()).to(dtype), struct.pack("??", False, False))

    def in_place():
        """Write the value over another tensor's place, and go on from a third tensor there."""
        s = c.section("persistent")
        if r.random() < 0.5:
            c.input(fresh(value.shape), section=s)
        writer = f"n{c.nodes}"
        c.node("identity", [tensor], [c.output(value, section=s)], name=writer)
        read = c.temp(value.shape, dtype)
        c.node("identity", [c.tensor(value.shape, dtype, s)], [read], after=[writer])
        go_on(read, value)

    moves = [transpose, reshape, cut, insert, grow, join, part, spread, view, product, in_place]
    for _ in range(r.randint(2, 7)):
        if value.numel() < 4000:
            r.choice(moves)()
    c.node("identity", [tensor], [c.output(value)])


if __name__ == "__main__":
    suite = Suite()
    for seed in range(int(os.environ.get("HPU_CHAINS", "150"))):
        chain(suite, seed)
    sys.exit(suite.main())
