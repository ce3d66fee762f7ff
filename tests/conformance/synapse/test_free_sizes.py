# SPDX-License-Identifier: Apache-2.0
"""Sizes of launches: each node type with one of its sizes between bounds, lowered for the launch's and run on the
program for all sizes where it has one; slices and splits whose pieces get theirs at the launch."""

import struct

from api_params import axis_params, slice_params, strided_params
from cases import *
from derived import CONTRADICTED, Words, each_node_type, freed, sizes_of

suite = Suite()


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
