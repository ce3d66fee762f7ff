# SPDX-License-Identifier: Apache-2.0
"""What the recorder did: calls recorded, graphs run, how many of them were compiled."""
from . import _C


def counts():
    """A dict since the last reset: "nodes" recorded; "graphs" run, of which "compiles" were compiled and "cache_hits" were not;
    "compile_ms"; nodes of the "largest_graph"; "split_graphs", which could not
    be compiled as one and ran in parts; "flushes" of lazy mode by their reasons; "refused": calls of the process that run
    on the CPU although the table has their op, with the reason; "signatures": kinds of calls of the process."""
    return _C.record_counts()


def reset():
    _C.reset_record_counts()


def compile_log():
    """The last compilations, a list of dicts: "what" was compiled, with its call site; "why": the dimension, number or op that
    differs from what was compiled before; "free_sizes": whether it serves other sizes, too; "ops"; "ms"."""
    return _C.compile_records()


def table():
    """Names of the aten ops that the device computes."""
    return _C.table()
