# SPDX-License-Identifier: Apache-2.0
"""What the package adds to torch.hpu and PyTorch beside the device itself: precision, metrics, and names that trainers import."""
import sys

from . import amp, hpu, profiler
from .amp import autocast_mode
from .hpu import gaudi, metrics


def install():
    autocast_mode.install()
    metrics.install()
    for name, module in (("amp", amp), ("metrics", metrics), ("profiler", profiler)):
        setattr(hpu, name, module)
        sys.modules["torch.hpu." + name] = module
    for name in ("get_autocast_hpu_dtype", "is_autocast_hpu_enabled", "set_autocast_hpu_dtype", "set_autocast_hpu_enabled"):
        setattr(hpu, name, getattr(amp, name))
    for name in gaudi.NAMES:
        setattr(hpu, name, getattr(gaudi, name))
    hpu.random.fork_rng = gaudi.fork_rng
