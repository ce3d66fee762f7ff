# SPDX-License-Identifier: Apache-2.0
"""Cases made of those of the other tables: of each node type some, with their tensors told in another way."""

import os
import runpy
import sys
from unittest import mock

import cases

FOLDER = os.path.dirname(os.path.abspath(__file__))
TABLES = ("matrix", "convolution", "movement", "slices", "elementwise", "reduction", "norms", "pooling", "index", "creation", "training", "random")

# Cases and sizes of which 0 contradicts their parameters, or which only happen to be those of another dimension, too.
CONTRADICTED = {
    ("pad_i8", 5), ("pad_i32", 5), ("slice_one_5", 4), ("slice_insert_one_f32", 7), ("dedw_3d_f32", 6),
    ("strided_insert_dense_f32", 2), ("strided_insert_dense_f32", 60), ("gather_nd_mxnet_f32", 2), ("gather_nd_mxnet_bf16", 2),
    ("gather_nd_mxnet_i32", 2), ("forward_3d_f32", 5), ("forward_3d_f32", 6), ("forward_3d_f32", 7),
}


class Words:
    """A line of a case: what kind it is, its first words and its keys."""

    def __init__(self, line):
        words = line.split(" ")
        self.kind = words[0]
        self.first = [w for w in words[1:] if "=" not in w]
        self.keys = dict(w.split("=", 1) for w in words[1:] if "=" in w)

    def __str__(self):
        return " ".join([self.kind, *self.first, *(f"{k}={v}" for k, v in self.keys.items())])

    def sizes(self):
        """Framework order; None: not declared."""
        word = self.keys.get("sizes")
        return None if word is None else tuple(int(s) for s in reversed(word.split(",")) if s)


def cases_of(table):
    """The cases of test_TABLE.py that must compile."""
    with mock.patch.object(cases.Suite, "main", lambda suite: suite), mock.patch.object(sys, "exit"):
        suite = runpy.run_path(os.path.join(FOLDER, f"test_{table}.py"))["suite"]
    return [c for c in suite.cases if c.error is None]


def guids_of(case):
    return [Words(line).first[0] for line in case.lines if line.startswith("node ")]


def each_node_type(most, tables=TABLES):
    """Of every GUID, data types apart, the first so many cases that are one node of it."""
    seen = {}
    for table in tables:
        for case in cases_of(table):
            guids = guids_of(case)
            if len(guids) != 1:
                continue
            seen[guids[0]] = seen.get(guids[0], 0) + 1
            if seen[guids[0]] <= most:
                yield table, case


def copy_of(case, suffix):
    """A case with lines of its own, which may be changed."""
    copy = cases.Case(f"{case.name}_{suffix}")
    copy.lines, copy.expected, copy.tolerance = list(case.lines), dict(case.expected), case.tolerance
    copy.sections, copy.tensors, copy.nodes = case.sections, case.tensors, case.nodes
    return copy


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
