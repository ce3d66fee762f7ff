# SPDX-License-Identifier: Apache-2.0
"""Sizes of launches: each node type with one of its sizes between bounds, lowered for the launch's and run on the
program for all sizes where it has one; slices and splits whose pieces get theirs at the launch."""

import struct

from api_params import axis_params, slice_params, strided_params
from cases import *
from derived import Words, copy_of, each_node_type

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


for number, (table, case) in enumerate(each_node_type(1)):
    sizes = sizes_of(case)
    if sizes and table not in ("random",):
        suite.cases.append(freed(case, sizes[number % len(sizes)]))

if __name__ == "__main__":
    sys.exit(suite.main())
