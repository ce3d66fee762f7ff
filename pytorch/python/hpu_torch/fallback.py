# SPDX-License-Identifier: Apache-2.0
"""Ops that run on the CPU because hpu has no kernel for them: how often, from where, and whether they may."""
import contextlib

from . import _C


def counts():
    """{"aten::add.out": {"calls": 3, "sites": {"train.py:12": 3}}} since the last reset."""
    return _C.fallback_counts()


def reset():
    _C.reset_fallback_counts()


def allow(ops):
    """As PT_HPU_PLACE_ON_CPU: "all", "none" (a fallback is an error that names the op), or names, separated by commas."""
    _C.set_place_on_cpu(ops)


def allowed():
    return _C.place_on_cpu() or "all"


@contextlib.contextmanager
def only(ops):
    """with fallback.only("none"): ..."""
    before = allowed()
    allow(ops)
    try:
        yield
    finally:
        allow(before)


def report():
    """The counts as text, the most frequent first."""
    lines = []
    for op, count in sorted(counts().items(), key=lambda item: -item[1]["calls"]):
        sites = sorted(count["sites"].items(), key=lambda item: -item[1])
        where = ", ".join(f"{site} ({calls})" for site, calls in sites[:3])
        lines.append(f"{count['calls']:8} {op}: {where}{', ...' if len(sites) > 3 else ''}")
    return "\n".join(lines)
