# SPDX-License-Identifier: Apache-2.0
"""DataLoader(pin_memory=True, pin_memory_device="hpu") with workers: its thread asks CUDA for the current device, whatever it pins
for."""
import functools

import torch
from torch.utils.data import dataloader


def install():
    init = dataloader._MultiProcessingDataLoaderIter.__init__

    @functools.wraps(init)
    def __init__(self, loader):
        if not loader.pin_memory_device.startswith("hpu") or torch.cuda.is_available():
            return init(self, loader)
        current = torch.cuda.current_device
        torch.cuda.current_device = lambda: -1  # CUDA's set_device leaves the device as it is then.
        try:
            return init(self, loader)
        finally:
            torch.cuda.current_device = current

    dataloader._MultiProcessingDataLoaderIter.__init__ = __init__
