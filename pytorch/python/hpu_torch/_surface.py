# SPDX-License-Identifier: Apache-2.0
"""What the package adds to torch.hpu and PyTorch beside the device itself: precision, metrics, and names that trainers import."""
import sys

from . import amp, hpu
from .amp import autocast_mode
from .hpu import gaudi, metrics


def install():
    autocast_mode.install()
    metrics.install()
    hpu.amp, hpu.metrics = amp, metrics
    sys.modules["torch.hpu.amp"], sys.modules["torch.hpu.metrics"] = amp, metrics
    for name in ("get_autocast_hpu_dtype", "is_autocast_hpu_enabled", "set_autocast_hpu_dtype", "set_autocast_hpu_enabled"):
        setattr(hpu, name, getattr(amp, name))
    for name in gaudi.NAMES:
        setattr(hpu, name, getattr(gaudi, name))
    hpu.random.fork_rng = gaudi.fork_rng
