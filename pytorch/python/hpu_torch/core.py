# SPDX-License-Identifier: Apache-2.0
"""The names of habana_frameworks.torch.core."""
import torch

from . import _C


def mark_step(device_str="", sync=False):
    """Runs what has been recorded so far (in lazy mode; in eager mode nothing is left to run). sync=True waits for the device."""
    index = torch.device(device_str).index if device_str else None
    _C.flush(-1 if index is None else index)
    if sync:
        _C.synchronize(-1 if index is None else index)


def hpu_initialize(*args, **options):
    """Nothing to do: a device is opened when it is first used."""
