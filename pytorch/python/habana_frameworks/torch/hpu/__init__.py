# SPDX-License-Identifier: Apache-2.0
import sys

from hpu_torch import hpu

sys.modules[__name__] = hpu
for _part in ("amp", "graphs", "memory", "metrics", "profiler", "random", "streams"):
    sys.modules[f"{__name__}.{_part}"] = getattr(hpu, _part)
sys.modules[f"{__name__}.events"] = hpu.streams
