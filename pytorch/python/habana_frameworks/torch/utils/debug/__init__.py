# SPDX-License-Identifier: Apache-2.0
from hpu_torch import fallback, hpu


def _get_fallback_op_count():
    """{op: calls that ran on the CPU}."""
    return {op: count["calls"] for op, count in fallback.counts().items()}


def _memstat_livealloc(msg=""):
    print(msg + ("\n" if msg else "") + hpu.memory_summary())
