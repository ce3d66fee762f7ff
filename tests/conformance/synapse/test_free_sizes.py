# SPDX-License-Identifier: Apache-2.0
"""Sizes of launches: each node type with one of its sizes between bounds, lowered for the launch's and run on the
program for all sizes where it has one; slices and splits whose pieces get theirs at the launch."""

import struct

from api_params import axis_params, slice_params, strided_params
from cases import *
from derived import each_node_type, freed, sizes_of

suite = Suite()


for number, (table, case) in enumerate(each_node_type(1)):
    sizes = sizes_of(case)
    if sizes and table not in ("random",):
        suite.cases.append(freed(case, sizes[number % len(sizes)]))

if __name__ == "__main__":
    sys.exit(suite.main())
