# SPDX-License-Identifier: Apache-2.0
"""torch.Generator(device="hpu"), and seeds for all devices."""
import contextlib

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

    @contextlib.contextmanager
    def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices"):
        """Within it, random numbers are drawn that change no generator of the CPU and of the hpu devices (of all, or of those that
        are named): at its end these are as they were."""
        if not enabled:
            yield
            return
        devices = list(range(_C.device_count()) if devices is None else devices)
        states = torch.get_rng_state(), [torch.hpu.get_rng_state(device) for device in devices]
        try:
            yield
        finally:
            torch.set_rng_state(states[0])
            for device, state in zip(devices, states[1]):
                torch.hpu.set_rng_state(state, device)

    torch.random.fork_rng = fork_rng
    manual_seed_.__wrapped__, seed_.__wrapped__ = manual_seed, seed
    torch.manual_seed = torch.random.manual_seed = manual_seed_
    torch.seed = torch.random.seed = seed_
