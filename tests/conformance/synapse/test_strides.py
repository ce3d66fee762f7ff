# SPDX-License-Identifier: Apache-2.0
"""Persistent tensors whose strides leave gaps: every node type reads and writes them as it does dense ones, and what
lies in the gaps stays."""

from api_params import axis_params, transpose_params
from cases import *
from cases import Tensor, in_memory, sizes_word
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

if __name__ == "__main__":
    sys.exit(suite.main())
