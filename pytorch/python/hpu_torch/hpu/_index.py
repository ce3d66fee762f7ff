# SPDX-License-Identifier: Apache-2.0
import torch

from .. import _C


def index_of(device):
    """The number of a device that is given as None (the current one), a number, "hpu", "hpu:1" or a torch.device."""
    if device is None:
        return _C.current_device()
    if isinstance(device, int):
        if device < 0:
            raise ValueError(f"{device} is no number of an hpu device")
        return _C.checked_index(device)
    device = torch.device(device)
    if device.type != "hpu":
        raise ValueError(f"expected an hpu device, but got: {device}")
    return _C.checked_index(-1 if device.index is None else device.index)
