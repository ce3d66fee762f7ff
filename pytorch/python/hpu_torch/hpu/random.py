# SPDX-License-Identifier: Apache-2.0
"""Random numbers of hpu devices: those of the CPU's generator with the same seed."""
from .. import _C
from ._index import index_of


def default_generator(device=None):
    """What ops draw from that are given no generator."""
    return _C.default_generator(index_of(device))


def manual_seed(seed):
    """Of the current device."""
    default_generator().manual_seed(int(seed))


def manual_seed_all(seed):
    _C.manual_seed_all(int(seed) & 0xFFFFFFFFFFFFFFFF)


def seed():
    """Seeds the current device with a number that is not reproducible, and returns it."""
    return default_generator().seed()


def seed_all():
    manual_seed_all(seed())


def initial_seed():
    return default_generator().initial_seed()


def get_rng_state(device=None):
    """On the CPU, as bytes."""
    return default_generator(device).get_state()


def get_rng_state_all():
    return [get_rng_state(i) for i in range(_C.device_count())]


def set_rng_state(state, device=None):
    default_generator(device).set_state(state.cpu())


def set_rng_state_all(states):
    for i, state in enumerate(states):
        set_rng_state(state, i)


def __getattr__(name):
    if name == "default_generators":
        return tuple(default_generator(i) for i in range(_C.device_count()))
    raise AttributeError(f"module 'torch.hpu.random' has no attribute '{name}'")
