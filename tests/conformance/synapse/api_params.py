# SPDX-License-Identifier: Apache-2.0
"""Parameter structures of the API nodes, packed from their published layouts."""

import itertools
import struct


def slice_params(entries, form="5"):
    """entries: (axis, start, end, step) in SynapseAI's axes."""
    n = 5 if form == "5" else 25
    columns = [[e[i] for e in entries] + [0] * (n - len(entries)) for i in range(4)]
    if form == "v2":
        return struct.pack("<26I", *columns[0], 0) + struct.pack("<75Q", *columns[1], *columns[2], *columns[3])
    return struct.pack(f"<{4 * n}I", *itertools.chain(*columns))


def whole(shape):
    return [slice(0, s, 1) for s in shape]


def take(x, entries):
    index = whole(x.shape)
    for axis, start, end, step in entries:
        index[x.dim() - 1 - axis] = slice(start, end, step)
    return x[tuple(index)]


def strided_params(offset, strides):
    """strides in framework order."""
    s = list(reversed(strides))
    return struct.pack("<26Q", offset, *s, *[0] * (25 - len(s)))


def transpose_params(perm):
    """From the framework's permutation: result dim d is operand dim perm[d]."""
    rank = len(perm)
    return struct.pack("<6I", *([rank - 1 - perm[rank - 1 - i] for i in range(rank)] + [0] * (5 - rank)), rank)


def transpose_params_ndims(perm):
    rank = len(perm)
    return struct.pack("<26I", rank, *([rank - 1 - perm[rank - 1 - i] for i in range(rank)] + [0] * (25 - rank)))


def axis_params(axis):
    return struct.pack("<I", axis)
