# SPDX-License-Identifier: Apache-2.0
"""What the package adds to torch.hpu and PyTorch beside the device itself: precision, and names that trainers import."""
import sys

from . import amp, hpu
from .amp import autocast_mode


def install():
    autocast_mode.install()
    hpu.amp = amp
    sys.modules["torch.hpu.amp"] = amp
    for name in ("get_autocast_hpu_dtype", "is_autocast_hpu_enabled", "set_autocast_hpu_dtype", "set_autocast_hpu_enabled"):
        setattr(hpu, name, getattr(amp, name))
