# SPDX-License-Identifier: Apache-2.0
"""torch.hpu: devices, streams, memory and random numbers, under the names that torch.cuda and Gaudi's bridge have."""
import torch

from .. import _C
from . import graphs, memory, random, streams  # noqa: F401: modules of the API
from .graphs import HPUGraph, ModuleCacher, graph, is_current_stream_capturing, make_graphed_callables, wrap_in_hpu_graph
from .memory import (OutOfMemoryError, empty_cache, max_memory_allocated, max_memory_reserved, mem_get_info, memory_allocated,
                     memory_reserved, memory_snapshot, memory_stats, memory_summary, reset_max_memory_allocated,
                     reset_peak_memory_stats)
from .random import (default_generator, get_rng_state, get_rng_state_all, initial_seed, manual_seed, manual_seed_all, seed,
                     seed_all, set_rng_state, set_rng_state_all)
from .streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream
from ._index import index_of


def is_available():
    """Whether there is an hpu device; opens none."""
    return _C.device_count() > 0


def device_count():
    """How many devices the process may use (HABANA_VISIBLE_MODULES)."""
    return _C.device_count()


def init():
    """Opens the current device, which else its first use does."""
    _C.open(-1)


def is_initialized():
    return any(_C.is_open(i) for i in range(_C.device_count()))


def current_device():
    """The number of the calling thread's device."""
    return _C.current_device()


def set_device(device):
    """For the calling thread. A number, "hpu:1", or torch.device("hpu:1")."""
    _C.set_device(index_of(device))


class device:
    """with torch.hpu.device(1): tensors on "hpu" are on hpu:1. None, or a negative number, changes nothing."""

    def __init__(self, device):
        self.index = -1 if device is None or (isinstance(device, int) and device < 0) else index_of(device)

    def __enter__(self):
        self.before = _C.current_device()
        if self.index >= 0:
            _C.set_device(self.index)

    def __exit__(self, *error):
        _C.set_device(self.before)
        return False


class device_of(device):
    """The same with the device of a tensor; one that is not on hpu changes nothing."""

    def __init__(self, tensor):
        super().__init__(tensor.device.index if tensor.device.type == "hpu" else None)


def synchronize(device=None):
    """Waits for all work of a device; an exception says what has failed of it."""
    _C.synchronize(index_of(device))


class _Properties(dict):
    __getattr__ = dict.__getitem__

    def __repr__(self):
        return "HPUDeviceProperties(" + ", ".join(f"{key}={value!r}" for key, value in self.items()) + ")"


def get_device_properties(device=None):
    """name, target, total_memory (bytes), module_id, pci_address, uuid; as attributes. Opens nothing."""
    return _Properties(_C.describe_device(index_of(device)))


def get_device_name(device=None):
    """"GAUDI", "GAUDI2" or "GAUDI3", as Gaudi's bridge has it (the board's name is in get_device_properties()). Opens nothing."""
    return {"gaudi1": "GAUDI"}.get(get_device_properties(device).target, get_device_properties(device).target.upper())


def get_device_capability(device=None):
    """The generation, such as "gaudi2"."""
    return get_device_properties(device).target


def can_device_access_peer(device, peer_device):
    """All devices of a node reach each other's memory."""
    return index_of(device) != index_of(peer_device)


def is_bf16_supported():
    return True


def get_default_generators():
    return tuple(default_generator(i) for i in range(_C.device_count()))


def __getattr__(name):
    if name == "default_generators":
        return get_default_generators()
    raise AttributeError(f"module 'torch.hpu' has no attribute '{name}'")


def set_lazy(lazy):
    """Lazy mode on or off for the process, from now on (PT_HPU_LAZY_MODE=1: from the beginning). Runs what is recorded first."""
    _C.set_lazy(bool(lazy))


def is_lazy():
    return _C.is_lazy()
