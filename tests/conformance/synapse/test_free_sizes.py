# SPDX-License-Identifier: Apache-2.0
"""Sizes of launches: each node type with one of its sizes between bounds, lowered for the launch's and run on the
program for all sizes where it has one; slices and splits whose pieces get theirs at the launch."""

import struct

from api_params import axis_params, slice_params, strided_params
from cases import *
from derived import CONTRADICTED, Words, copy_of, each_node_type

suite = Suite()


def sizes_of(case):
    """The sizes above 1 of what it reads that are no constants'."""
    found, fixed = [], set()
    for line in case.lines:
        if line.startswith("tensor "):
            words = Words(line)
            if "data" in words.keys:
                found += [s for s in words.sizes() or () if s > 1 and s not in found]
            if "host" in words.keys or {"perm", "strides", "offset", "min", "actual"} & words.keys.keys():
                fixed |= set(words.sizes() or ())
    return [s for s in found if s not in fixed]


def freed(case, size, suffix="free"):
    """The case with bounds for `size`, everywhere."""
    copy = copy_of(case, f"{suffix}{size}")
    for at, line in enumerate(copy.lines):
        if not line.startswith("tensor "):
            continue
        words = Words(line)
        keys = words.keys
        shape = words.sizes()
        if shape is None or size not in shape:
            continue
        own = keys["sizes"].split(",")
        keys["sizes"] = ",".join(str(2 * size) if int(s) == size else s for s in own)
        keys["min"] = ",".join("1" if int(s) == size else s for s in own)
        keys["actual"] = ",".join(own)
        copy.lines[at] = str(words)
    return copy


def emptied(case, size):
    """The case with bounds from 0 on for `size`, and a launch that has 0 everywhere."""
    copy = freed(case, size, "none")
    for at, line in enumerate(copy.lines):
        words = Words(line)
        keys = words.keys
        if words.kind != "tensor" or "actual" not in keys:
            continue
        keys["min"] = ",".join("0" if int(most) == 2 * size else most for most in keys["sizes"].split(","))
        keys["actual"] = ",".join("0" if int(s) == size else s for s in keys["actual"].split(","))
        if "data" in keys:
            keys["data"] = ""
        copy.lines[at] = str(words)
    for name, (expected, tolerance, *check) in case.expected.items():
        copy.expected[name] = (torch.zeros(tuple(0 if s == size else s for s in expected.shape), dtype=expected.dtype), tolerance, *check)
    return copy


for number, (table, case) in enumerate(each_node_type(1)):
    sizes = sizes_of(case)
    if not sizes or table == "random":
        continue
    size = sizes[number % len(sizes)]
    suite.cases.append(freed(case, size))
    # What is not empty then is the subject of test_zero_sizes.py.
    if (case.name, size) not in CONTRADICTED and all(size in expected.shape for expected, *_ in case.expected.values()):
        suite.cases.append(emptied(case, size))

if __name__ == "__main__":
    sys.exit(suite.main())
