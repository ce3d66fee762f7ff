# SPDX-License-Identifier: Apache-2.0
"""Sizes of launches of tensors that are strided by their largest sizes (GAUDI_ENABLE_SERIALIZE_DESERIALIZE_PASS=0): each
node type with one of its sizes between bounds finds each element where the largest sizes put it, and leaves what is
between them as it is."""

from cases import *
from cases import in_memory
from derived import Words, each_node_type, freed, sizes_of

suite = Suite()


def strides_of(shape, size):
    """Bytes, framework order, dense."""
    strides = []
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= max(extent, 1)
    return tuple(strides)


def strided(case, size):
    """The case with bounds for `size` and the memory of its largest sizes; None where a tensor of it is told otherwise."""
    copy = freed(case, size, "largest")
    copy.largest = True
    kinds = [line.split(" ")[1] for line in copy.lines if line.startswith("section ")]
    tensors = [Words(line) for line in copy.lines if line.startswith("tensor ")]
    sections = [words.keys.get("section") for words in tensors]
    changed = 0
    for words in tensors:
        keys, name = words.keys, words.first[0]
        if "actual" not in keys or "section" not in keys or kinds[int(keys["section"])] == "workspace":
            continue
        isResult = name in copy.expected
        if sections.count(keys["section"]) > 1 or {"offset", "perm", "strides", "host"} & keys.keys() or int(keys.get("type", 0)) or isResult == ("data" in keys):
            return None
        actual = tuple(int(s) for s in reversed(keys["actual"].split(",")))
        dtype = copy.expected[name][0].dtype if isResult else next((t for t, number in SYN_TYPES.items() if number == int(keys["dtype"]) and t != torch.bool), None)
        if dtype is None:
            return None
        value = torch.zeros(actual, dtype=dtype) if isResult else from_bytes(bytes.fromhex(keys["data"]), dtype, actual)
        strides = strides_of(words.sizes(), value.element_size())
        memory, _ = in_memory(value, strides)
        keys["data"] = memory.tobytes().hex()
        if isResult:
            copy.strides[name] = strides
        at = next(n for n, text in enumerate(copy.lines) if text.startswith(f"tensor {name} "))
        copy.lines[at] = str(words)
        changed += 1
    return copy if changed else None


# What strides have to do with a type of node is its sizes: a third of the types, each family among them.
for number, (table, case) in enumerate(each_node_type(1)):
    if number % 3:
        continue
    sizes = sizes_of(case)
    # The fastest one, where that is possible: of the slowest alone the memory is dense.
    for size in sizes[::-1] if table != "random" else ():
        copy = strided(case, size)
        if copy is not None:
            suite.cases.append(copy)
            break

if __name__ == "__main__":
    sys.exit(suite.main())
