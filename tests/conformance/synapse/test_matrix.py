# SPDX-License-Identifier: Apache-2.0
"""Matrix products, einsum, moments and norms against PyTorch."""

import struct

from cases import *

suite = Suite()


def gemm_params(a, b):
    return struct.pack("??", a, b)


def product(*values):
    """In double, rounded once."""
    return [v.double() for v in values]


for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    for m, k, n in ((5, 7, 3), (1, 64, 1), (130, 33, 70)):
        for ta in (False, True):
            for tb in (False, True):
                a, b = rand(*((k, m) if ta else (m, k)), dtype=dtype), rand(*((n, k) if tb else (k, n)), dtype=dtype)
                da, db = product(a.T if ta else a, b.T if tb else b)
                c = suite.case(f"gemm_{t}_{m}x{k}x{n}_{int(ta)}{int(tb)}")
                c.node("gemm", [c.input(a), c.input(b)], [c.output((da @ db).to(dtype), declare=ta)], gemm_params(ta, tb))
    a, b, bias = rand(6, 5, dtype=dtype), rand(5, 9, dtype=dtype), rand(9, dtype=dtype)
    c = suite.case(f"gemm_{t}_bias")
    c.node("GEMM", [c.input(a), c.input(b), c.input(bias)], [c.output((a.double() @ b.double() + bias.double()).to(dtype))])
    c = suite.case(f"gemm_{t}_extra_ones")
    c.node("gemm", [c.input(a.reshape(1, 6, 5)), c.input(b.reshape(1, 5, 9))], [c.output((a.double() @ b.double()).to(dtype).reshape(1, 6, 9))])
    c = suite.case(f"gemm_{t}_to_f32")
    c.node("gemm", [c.input(a), c.input(b)], [c.output((a.double() @ b.double()).float())])

    # Gradients, the defaults and the plain meaning of the flags.
    x, w = rand(11, 6, dtype=dtype, ).double().requires_grad_(), rand(6, 4, dtype=dtype).double().requires_grad_()
    dc = rand(11, 4, dtype=dtype)
    (x @ w).backward(dc.double())
    c = suite.case(f"gemm_dedx_{t}")
    c.node("gemm_dedx", [c.input(dc), c.input(w.detach().to(dtype))], [c.output(x.grad.to(dtype))])
    c = suite.case(f"gemm_dedw_{t}")
    c.node("gemm_dedw", [c.input(dc), c.input(x.detach().to(dtype))], [c.output(w.grad.to(dtype))])
    c = suite.case(f"gemm_dedw_{t}_flags")  # (op(dC) x op(A)) transposed
    p, q = rand(4, 7, dtype=dtype), rand(5, 7, dtype=dtype)
    c.node("gemm_dedw", [c.input(p), c.input(q)], [c.output((p.double() @ q.double().T).T.to(dtype))], gemm_params(False, True))

    for name, sa, sb in (("same", (3, 2, 5, 4), (3, 2, 4, 6)), ("broadcast", (3, 1, 5, 4), (1, 2, 4, 6)), ("ranks", (2, 5, 4), (4, 6))):
        a, b = rand(*sa, dtype=dtype), rand(*sb, dtype=dtype)
        c = suite.case(f"batch_gemm_{t}_{name}")
        c.node("batch_gemm", [c.input(a), c.input(b)], [c.output((a.double() @ b.double()).to(dtype), declare=False)])
    a, b = rand(3, 2, 4, 5, dtype=dtype), rand(3, 2, 6, 4, dtype=dtype)
    c = suite.case(f"batch_gemm_{t}_transposed")
    c.node("batch_gemm", [c.input(a), c.input(b)], [c.output((a.double().mT @ b.double().mT).to(dtype))], gemm_params(True, True))
    x, w = rand(3, 11, 6, dtype=dtype).double().requires_grad_(), rand(3, 6, 4, dtype=dtype).double().requires_grad_()
    dc = rand(3, 11, 4, dtype=dtype)
    (x @ w).backward(dc.double())
    c = suite.case(f"batch_gemm_dedx_{t}")
    c.node("batch_gemm_dedx", [c.input(dc), c.input(w.detach().to(dtype))], [c.output(x.grad.to(dtype))])
    c = suite.case(f"batch_gemm_dedw_{t}")
    c.node("batch_gemm_dedw", [c.input(dc), c.input(x.detach().to(dtype))], [c.output(w.grad.to(dtype))])
    a, b, ma, mb = (rand(*s, dtype=dtype) for s in ((2, 3, 5, 4), (2, 3, 4, 6), (2, 1, 5, 2), (2, 1, 2, 6)))
    c = suite.case(f"masked_batch_gemm_{t}")
    expected = (a.double() @ b.double() + ma.double() @ mb.double()).to(dtype)
    c.node("masked_batch_gemm", [c.input(v) for v in (a, b, ma, mb)], [c.output(expected)])

    for i, (equation, *shapes) in enumerate((
            ("ij,jk->ik", (4, 5), (5, 6)), ("bij,bjk->bik", (3, 4, 5), (3, 5, 6)), ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
            ("i,j->ij", (4,), (5,)), ("ij,ij->", (4, 5), (4, 5)), ("ij,kj->ki", (4, 5), (6, 5)), ("ij->ji", (4, 5)), ("ij->", (4, 5)),
            ("ijk->ki", (3, 4, 5)), ("ii->i", (5, 5)), ("ii->", (5, 5)), ("iji->ji", (4, 3, 4)), ("...ij,...jk->...ik", (2, 3, 4, 5), (2, 3, 5, 6)),
            ("...ij,jk->...ik", (2, 3, 4, 5), (5, 6)), ("bi,bj->bij", (3, 4), (3, 5)), ("abc,cd->abd", (2, 3, 4), (4, 5)),
            ("ijl,jk->ik", (4, 5, 2), (5, 6)), ("...i->...", (2, 3, 4)), ("bij,bj->bi", (3, 4, 5), (3, 5)))):
        values = [rand(*s, dtype=dtype) for s in shapes]
        expected = torch.einsum(equation, *product(*values))
        expected = expected.reshape(expected.shape or (1,)).to(dtype)
        c = suite.case(f"einsum_{t}_{i}")
        c.node("einsum", [c.input(v) for v in values], [c.output(expected, declare=False)], equation.encode().ljust(51, b"\0"))

    for shape in ((6, 5), (2, 4, 3, 5), (7,)):
        x = rand(*shape, dtype=dtype)
        d, axes = x.double(), tuple(range(len(shape) - 1))
        mean = d.mean(axes, keepdim=True) if axes else d
        variance = d.var(axes, unbiased=False, keepdim=True) if axes else d * 0
        c = suite.case(f"moments_{t}_{len(shape)}d")
        c.node("moments_fwd", [c.input(x)], [c.output(mean.float()), c.output(variance.float())])
    x = rand(3, 4, 5, dtype=dtype)
    c = suite.case(f"frobenius_norm_{t}")
    c.node("frobenius_norm_fwd", [c.input(x)], [c.output(x.double().norm().reshape(1).float())])

# 8-bit operands, by their codes (torch has no such type here): f32 sums, rounded to what the result is declared as.
FP8 = {
    "hf8": (8192, lambda sign, code: sign * torch.where(code >> 3 > 0, (8 + (code & 7)) * 2.0 ** ((code >> 3) - 10), (code & 7) * 2.0 ** -9)),
    "f8": (16384, lambda sign, code: sign * torch.where(code >> 2 > 0, (4 + (code & 3)) * 2.0 ** ((code >> 2) - 17), (code & 3) * 2.0 ** -16)),
}
for t, (syn_type, decode) in FP8.items():
    for result in (torch.float32, torch.bfloat16):
        c = suite.case(f"gemm_{t}_to_{TYPE_NAMES[result]}")
        tensors, values = [], []
        for shape in ((6, 40), (40, 9)):
            code, sign = rand(*shape, dtype=torch.int64, low=0, high=68), rand(*shape, dtype=torch.bool)
            data = (code + 128 * sign.long()).to(torch.uint8)
            tensors.append(c.tensor(shape, syn_type, c.section("persistent"), data=data.numpy().tobytes().hex()))
            values.append(decode(1.0 - 2.0 * sign.double(), code.double().long()))
        c.node("gemm", tensors, [c.output((values[0].double() @ values[1].double()).to(result))])
# f16 as well.
a, b = rand(6, 40).half(), rand(40, 9).half()
c = suite.case("gemm_f16")
c.node("gemm", [c.input(a), c.input(b)], [c.output((a.double() @ b.double()).half())])

# f32 products in bf16, as synNodeTypeSetPrecision asks for: operands and the result are rounded.
a, b = rand(6, 40), rand(40, 9)
c = suite.case("gemm_precision_bf16")
c.node("gemm", [c.input(a), c.input(b)], [c.output((a.bfloat16().double() @ b.bfloat16().double()).bfloat16().float(), tolerance=8e-3)], precision=2)
c = suite.case("gemm_precision_bf16_is_narrower")  # Not f32 after all.
c.node("gemm", [c.input(a), c.const(torch.eye(40))], [c.output(a.bfloat16().float())], precision=2)

# What must be said of wrong graphs.
x, y = rand(4, 5), rand(6, 3)
c = suite.case("gemm_common_differs")
c.node("gemm", [c.input(x), c.input(y)], [c.output(rand(4, 3))], name="mm").fails("node 'mm' (gemm)", "common sizes differ: 5", "6")
c = suite.case("gemm_wrong_result")
c.node("gemm", [c.input(x), c.input(rand(5, 3))], [c.output(rand(4, 4))]).fails("output 0 (C) has sizes {4, 4}", "{3, 4}")
c = suite.case("gemm_params_size")
c.node("gemm", [c.input(x), c.input(rand(5, 3))], [c.output(rand(4, 3))], b"\0\0\0").fails("parameters of 3 bytes", "synGEMMParams")
c = suite.case("gemm_missing_operand")
c.node("gemm", [c.input(x)], [c.output(rand(4, 3))]).fails("input 1 (B) is missing")
c = suite.case("gemm_integers")
c.node("gemm", [c.input(rand(4, 5, dtype=torch.int8, high=5)), c.input(rand(5, 3, dtype=torch.int8, high=5))], [c.output(rand(4, 3, dtype=torch.int8))])
c.fails("products of integers are of 32 bits or more")
a, b = rand(4, 70, dtype=torch.int8, high=127) - 50, rand(70, 3, dtype=torch.int8, high=127)
c = suite.case("gemm_integers_are_exact")
c.node("gemm", [c.input(a), c.input(b)], [c.output(a.int() @ b.int())])
c = suite.case("gemm_mixed_types")
c.node("gemm", [c.input(x), c.input(rand(5, 3, dtype=torch.int32))], [c.output(rand(4, 3))]).fails("products of integers")
c = suite.case("gemm_bias_size")
c.node("gemm", [c.input(x), c.input(rand(5, 3)), c.input(rand(4))], [c.output(rand(4, 3))]).fails("input 2 (bias)", "must have {3}")
c = suite.case("gemm_batched")
c.node("gemm", [c.input(rand(2, 4, 5)), c.input(rand(2, 5, 3))], [c.output(rand(2, 4, 3))]).fails("use batch_gemm")
for i, (equation, fragment) in enumerate((("ij,jk", "exactly one"), ("ij,jk->il", "must name dims"), ("ijk,jk->i", "of an operand of rank 2"),
                                          ("ij->i", "1 operands, the node 2"), ("ij,jj->i", "different sizes"))):
    c = suite.case(f"einsum_bad_{i}")
    c.node("einsum", [c.input(rand(4, 5)), c.input(rand(5, 6))], [c.output(rand(4))], equation.encode().ljust(51, b"\0")).fails(fragment)
c = suite.case("unknown_guid")
c.node("gemmm", [c.input(x), c.input(rand(5, 3))], [c.output(rand(4, 3))], name="mm").fails("node 'mm' (gemmm)", "gemm")
c = suite.case("gemm_quantised")
q = c.tensor((4, 4), 8192, c.section("persistent"), scale=0.5)
c.node("gemm", [q, q], [c.output(rand(4, 4))]).fails("input 0 (A) is quantised")
c = suite.case("gemm_exponent_bias")
q = c.tensor((4, 4), 8192, c.section("persistent"), bias=11)
c.node("gemm", [q, q], [c.output(rand(4, 4))]).fails("input 0 (A) is quantised")
# All faulty nodes at once, and not those that only lack their results.
c = suite.case("all_errors")
bad1, bad2 = c.temp((4, 3), torch.float32), c.temp((4, 3), torch.float32)
c.node("gemm", [c.input(x), c.input(y)], [bad1], name="first")
c.node("gemm", [c.input(x), c.input(y)], [bad2], name="second")
c.node("gemm", [bad1, bad2], [c.output(rand(4, 4))], name="third").fails("'first'", "'second'")

sys.exit(suite.main())
