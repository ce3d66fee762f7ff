# SPDX-License-Identifier: Apache-2.0
"""module.to("hpu") in place. PyTorch would make new parameters when it changes between the CPU and hpu: those that two modules
share would be two, and an optimiser that was made before would train the old ones."""
import functools

import torch
from torch.nn import Module, Parameter

from . import _C


class _InPlace:
    """fn, for parameters that it moves to or from hpu: they become what fn gives, and stay the objects that they are."""

    def __init__(self, fn):
        self.fn = fn

    def __call__(self, tensor):
        result = self.fn(tensor)
        if (isinstance(tensor, Parameter) and isinstance(result, torch.Tensor) and result.device != tensor.device
                and "hpu" in (result.device.type, tensor.device.type)):
            _C.replace_(tensor, result)
            return tensor
        return result


def install():
    apply = Module._apply

    @functools.wraps(apply)
    def _apply(self, fn):
        return apply(self, fn if isinstance(fn, _InPlace) else _InPlace(fn))

    Module._apply = _apply

    def to_hpu(self, device=None):
        """Moves all parameters and buffers to an hpu device, in place: the current one, or the one with the number."""
        return self._apply(lambda tensor: tensor.hpu(device))

    Module.hpu = to_hpu
