# SPDX-License-Identifier: Apache-2.0
"""Persistent tensors whose strides leave gaps: every node type reads and writes them as it does dense ones, and what
lies in the gaps stays."""

from api_params import axis_params, transpose_params
from cases import *
from cases import in_memory, sizes_word, to_bytes
from derived import Words, copy_of, each_node_type

suite = Suite()


def ways(shape, size):
    """Strides in bytes for elements of `size` bytes, by name."""

    def pitched(pitches, order):
        """The dims of `order` from the fastest on; each takes so many bytes more than what is inside of it."""
        strides, inner = [0] * len(shape), size
        for d, pitch in zip(order, pitches):
            strides[d] = inner + pitch
            inner = strides[d] * max(shape[d], 1)
        return tuple(strides)

    dims = list(reversed(range(len(shape))))
    return {
        "rows": pitched([0] + [3 * size] * (len(dims) - 1), dims),
        "spread": pitched([size] * len(dims), dims),
        "turned": pitched([0] + [2 * size] * (len(dims) - 1), dims[::-1]),
        "odd": pitched([0] + [1] * (len(dims) - 1), dims) if len(dims) > 1 else pitched([1], dims),
    }


def strided(case, way):
    """The case with strides for all of its persistent tensors that lie alone; None where there is none."""
    copy = copy_of(case, way)
    tensors = [Words(line) for line in case.lines if line.startswith("tensor ")]
    sections = [words.keys.get("section") for words in tensors]
    changed = 0
    for i, words in enumerate(tensors):
        keys = words.keys
        name = words.first[0]
        alone = "section" in keys and sections.count(keys["section"]) == 1 and not {"offset", "perm", "strides", "host", "actual", "min"} & keys.keys()
        dtype = next((t for t, number in SYN_TYPES.items() if number == int(keys["dtype"]) and t != torch.bool), None)
        if not alone or dtype is None or int(keys.get("type", 0)) or (name in case.expected and len(case.expected[name]) > 2 and case.expected[name][2]):
            continue
        line = f"tensor {name}"
        at = next(n for n, text in enumerate(copy.lines) if text.startswith(line + " "))
        if name in case.expected:
            if "data" in keys:
                continue  # Read, too.
            expected = case.expected[name][0]
            strides = ways(expected.shape, expected.element_size())[way]
            memory, _ = in_memory(torch.zeros(expected.shape, dtype=expected.dtype), strides)
            copy.strides[name] = strides
        elif "data" in keys:
            value = from_bytes(bytes.fromhex(keys["data"]), dtype, words.sizes())
            strides = ways(value.shape, value.element_size())[way]
            memory, _ = in_memory(value, strides)
        else:
            continue
        if not strides:
            continue
        keys.update(strides=sizes_word(strides), data=memory.tobytes().hex())
        copy.lines[at] = str(words)
        changed += 1
    return copy if changed else None


for number, (table, case) in enumerate(each_node_type(1)):
    names = ("rows", "spread", "turned", "odd")
    copy = strided(case, names[number % 4 if number % 8 < 4 else (number + 1) % 4])
    if copy is not None:
        suite.cases.append(copy)

# Strides that only readers may have: one element at many places.
def reads(name, value, strides, memory, guid="identity", expected=None, p=b""):
    """`value` is what the tensor of these strides (bytes) in `memory` is."""
    c = suite.case(name)
    t = c.tensor(value.shape, value.dtype, c.section("persistent"), strides=sizes_word(strides), data=to_bytes(memory).hex())
    c.node(guid, [t], [c.output(value if expected is None else expected)], p)


line = rand(12)
reads("read_repeated_columns", line[:3, None].expand(3, 4), (4, 0), line[:3])
reads("read_windows", line.unfold(0, 4, 2), (8, 4), line)
reads("read_reversed_order", line[:6].reshape(2, 3).T, (4, 12), line[:6], "neg_fwd_f32", -line[:6].reshape(2, 3).T)
reads("read_repeated_product", line[:3, None].expand(3, 4), (4, 0), line[:3], "transpose", line[:3].expand(4, 3), transpose_params((1, 0)))
reads("read_ones", line[:1].reshape(1, 1, 1), (0, 40, 0), line[:1])
reads("read_one_row", line[:4].reshape(1, 4), (999, 4), line[:4])
for dtype in (torch.int8, torch.int16, torch.int64, torch.float16):
    t = TYPE_NAMES[dtype]
    x = rand(3, 5, dtype=dtype, low=-50 if not dtype.is_floating_point else -1, high=50 if not dtype.is_floating_point else 1)
    size = x.element_size()
    for name, (ins, outs) in {
        "pitch": ((7 * size, size), (6 * size, size)), "turned": ((size, 3 * size), (size, 4 * size)),
        "odd": ((5 * size + 1, size), (6 * size + 3, size)), "spread": ((13 * size, 2 * size), (16 * size, 3 * size)),
        "odd_columns": ((5 * size + 9, size + 1), (5 * size + 12, size + 2)),
    }.items():
        c = suite.case(f"{name}_{t}")
        c.node("memcpy", [c.strided_input(x, ins)], [c.strided_output(x, outs)])
a, b = rand(6, 4), rand(4, 5)
for dtype in (torch.float32, torch.bfloat16):
    x, y = a.to(dtype), b.to(dtype)
    size = x.element_size()
    c = suite.case(f"product_{TYPE_NAMES[dtype]}")
    c.node("gemm", [c.strided_input(x, (9 * size, 2 * size)), c.strided_input(y, (size, 7 * size))],
           [c.strided_output((x.double() @ y.double()).to(dtype), (6 * size + 1, size))])
c = suite.case("chain")
t = c.strided_output(a * 2, (40, 8))
c.node("add_fwd_f32", [t, t], [c.strided_output(a * 4, (20, 4))])
c.node("add_fwd_f32", [c.strided_input(a, (32, 4)), c.strided_input(a, (4, 24))], [t])
c = suite.case("of_nothing")
c.node("neg_fwd_f32", [c.strided_input(torch.zeros(0, 4), (32, 4))], [c.strided_output(torch.zeros(0, 4), (40, 8))])

bad = lambda name: suite.case(f"bad_{name}")
x = rand(3, 4)
c = bad("write_repeated")
c.node("identity", [c.input(x)], [c.tensor((3, 4), torch.float32, c.section("persistent"), strides="0,16")]).fails("several elements at one place")
c = bad("write_windows")
c.node("identity", [c.input(x)], [c.tensor((3, 4), torch.float32, c.section("persistent"), strides="4,8")]).fails("several elements at one place")
c = bad("write_halves")
c.node("identity", [c.input(x)], [c.tensor((3, 4), torch.float32, c.section("persistent"), strides="2,16")]).fails("several elements at one place")
c = bad("slowest_not_given")
c.node("identity", [c.tensor((3, 4), torch.float32, c.section("persistent"), strides="4")], [c.output(x)]).fails("say nothing of dim 1")
c = bad("beyond_all_memory")
c.node("identity", [c.tensor((3, 4), torch.float32, c.section("persistent"), strides="4,9000000000000000000")], [c.output(x)]).fails("2^63")

if __name__ == "__main__":
    sys.exit(suite.main())
