# SPDX-License-Identifier: Apache-2.0
"""torch.Generator(device="hpu"), and seeds for all devices."""
import torch

from . import _C

_Original = torch._C.Generator


class _Meta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, _Original)

    def __subclasscheck__(cls, other):
        return issubclass(other, _Original)


class Generator(metaclass=_Meta):
    """A generator of random numbers on a device. (PyTorch's own class refuses hpu; what this gives is of that class.)"""

    def __new__(cls, device="cpu"):
        device = torch.device(device)
        if device.type != "hpu":
            return _Original(device=device)
        return _C.make_generator(-1 if device.index is None else device.index)


def install():
    torch.Generator = Generator
    manual_seed, seed = torch.random.manual_seed, torch.random.seed

    def manual_seed_(value):
        """Seeds the CPU's generator and those of all devices."""
        torch.hpu.manual_seed_all(value)
        return manual_seed(value)

    def seed_():
        """Seeds all generators with a number that is not reproducible, and returns it."""
        value = seed()
        torch.hpu.manual_seed_all(value)
        return value

    manual_seed_.__wrapped__, seed_.__wrapped__ = manual_seed, seed
    torch.manual_seed = torch.random.manual_seed = manual_seed_
    torch.seed = torch.random.seed = seed_
