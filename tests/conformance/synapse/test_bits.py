# SPDX-License-Identifier: Apache-2.0
"""Bytes under another element type, against torch.Tensor.view(dtype): every bit must be the same, NaNs' among them."""

from cases import *
from cases import to_bytes

suite = Suite()
# Name, synDataType, and a type of torch that holds the bits (it may lack the type itself).
TYPES = (
    ("f32", 4, torch.float32), ("bf16", 2, torch.bfloat16), ("f16", 256, torch.float16), ("hf8", 1 << 13, torch.uint8),
    ("f8", 1 << 14, torch.uint8), ("i8", 1, torch.int8), ("u8", 32, torch.uint8), ("i16", 8, torch.int16), ("u16", 512, torch.int16),
    ("i32", 16, torch.int32), ("u32", 1024, torch.int32), ("i64", 1 << 15, torch.int64), ("u64", 1 << 16, torch.int64),
)


def width(dtype):
    return torch.empty(0, dtype=dtype).element_size()


def same_bits(expected):
    def check(got):
        got, want = to_bytes(got), to_bytes(expected)
        wrong = [i for i in range(len(want)) if got[i] != want[i]]
        return f"{len(wrong)} of {len(want)} bytes differ, first {wrong[0]}" if wrong else None
    return check


def random_bits(*shape, dtype):
    return rand(*shape[:-1], shape[-1] * width(dtype), dtype=torch.uint8, low=0, high=256).view(dtype)


for name, syn, dtype in TYPES:
    for other, other_syn, other_dtype in TYPES:
        x = random_bits(3, 5, 16, dtype=dtype)
        y = x.view(other_dtype)
        c = suite.case(f"reinterpret_{name}_{other}")
        c.node("reinterpret_cast", [c.input(x, dtype=syn)],
               [c.output(y, check=same_bits(y), declare=width(dtype) >= width(other_dtype), dtype=other_syn)])
    # Every code, there and back.
    if width(dtype) < 4:
        integer, integer_syn = (torch.int8, 1) if width(dtype) == 1 else (torch.int16, 8)
        codes = torch.arange(256 ** width(dtype)).to(integer)
        c = suite.case(f"codes_of_{name}")
        c.node("reinterpret_cast", [c.input(codes, dtype=syn)], [c.output(codes, check=same_bits(codes))])
        c = suite.case(f"codes_to_{name}")
        c.node("reinterpret_cast", [c.input(codes)], [c.output(codes, check=same_bits(codes), dtype=syn)])

# In the middle of a computation: the sign of a sum by its top bit, the exponent of a product by a shift.
for dtype, integer in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16)):
    t, i = TYPE_NAMES[dtype], TYPE_NAMES[integer]
    a, b = rand(7, 33, dtype=dtype), rand(7, 33, dtype=dtype)
    mask = torch.full((1,), torch.iinfo(integer).max, dtype=integer)
    c = suite.case(f"absolute_{t}")
    total, code, cleared = c.temp(a.shape, dtype), c.temp(a.shape, integer), c.temp(a.shape, integer)
    c.node(f"add_fwd_{t}", [c.input(a), c.input(b)], [total]).node("reinterpret_cast", [total], [code])
    c.node(f"bitwise_and_fwd_{i}", [code, c.input(mask)], [cleared])
    expected = (a.double() + b.double()).to(dtype).abs()
    c.node("reinterpret_cast", [cleared], [c.output(expected, check=same_bits(expected))])
    # Behind a product, in its epilogue.
    left, right = (rand(*s, dtype=torch.int8, low=-4, high=5).to(dtype) for s in ((40, 24), (24, 33)))
    product = (left.double() @ right.double()).to(dtype)
    c = suite.case(f"epilogue_{t}")
    raw, code, cleared = c.temp(product.shape, dtype), c.temp(product.shape, integer), c.temp(product.shape, integer)
    c.node("gemm", [c.input(left), c.input(right)], [raw]).node("reinterpret_cast", [raw], [code])
    c.node(f"bitwise_and_fwd_{i}", [code, c.input(mask)], [cleared])
    c.node("reinterpret_cast", [cleared], [c.output(product.abs(), check=same_bits(product.abs()))])
    c = suite.case(f"pieces_{t}")
    scaled, parts = c.temp(a.shape, dtype), (a * 2).view(torch.uint8)
    c.node(f"mult_fwd_{t}", [c.input(a), c.input(torch.tensor([2], dtype=dtype))], [scaled])
    c.node("reinterpret_cast", [scaled], [c.output(parts, check=same_bits(parts))])

x = random_bits(4, 70, dtype=torch.int16)
c = suite.case("reinterpret_row")
c.node("reinterpret_cast", [c.input(x)], [c.output(x.view(torch.int32), check=same_bits(x))])

c = suite.case("bad_bytes")
c.node("reinterpret_cast", [c.input(rand(2, 3, dtype=torch.int16, high=9))], [c.output(rand(2, 1))]).fails("6 bytes of size 0", "f32")
c = suite.case("bad_sizes")
c.node("reinterpret_cast", [c.input(rand(2, 4))], [c.output(rand(2, 4, dtype=torch.int16, high=9))]).fails("output 0 (Y) has sizes {4, 2}", "{8, 2}")
c = suite.case("bad_type")
c.node("reinterpret_cast", [c.input(rand(2, 4))], [c.temp((2, 4))]).fails("needs an element type")

sys.exit(suite.main())
