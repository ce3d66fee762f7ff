# SPDX-License-Identifier: Apache-2.0
"""Names that Gaudi's bridge has on torch.hpu beside those of torch.cuda. Switches of its kernels that have no meaning here take effect nowhere, and say so in
their sentences: programs call them unconditionally."""
import contextlib

import torch

from .. import _C
from . import memory
from ._index import index_of

memory_cached, max_memory_cached, reset_max_memory_cached = memory.memory_reserved, memory.max_memory_reserved, memory.reset_peak_memory_stats
memory_usage = memory.memory_allocated


def is_bf16_available():
    return True


def get_device_type(device=None):
    """synDeviceType of SynapseAI's headers: 2 (Gaudi), 4 (Gaudi 2), 5 (Gaudi 3)."""
    return {"gaudi1": 2, "gaudi2": 4, "gaudi3": 5}[_C.describe_device(index_of(device))["target"]]


def get_arch_list():
    return sorted({_C.describe_device(i)["target"] for i in range(_C.device_count())})


def get_gencode_flags():
    """There is no code generator that takes flags."""
    return ""


_state = {"deterministic": False, "inference": False}


def setDeterministic(value):
    """Results here are the same in each run whatever this says; the value is kept for getDeterministic()."""
    _state["deterministic"] = bool(value)


def getDeterministic():
    return _state["deterministic"]


def enable_inference_mode():
    """Kept for is_inference_mode(); graphs are compiled the same way."""
    _state["inference"] = True


def disable_inference_mode():
    _state["inference"] = False


def is_inference_mode():
    return _state["inference"]


def set_sync_debug_mode(debug_mode):
    """Accepted; eager mode with torch.hpu.synchronize() behind each op is the way to find an op that fails."""


@contextlib.contextmanager
def sdp_kernel(enable_recompute=False):
    """Accepted; attention is a composition here, and what of it is recomputed is the compiler's choice."""
    yield


def enable_dynamic_shape():
    """Accepted; sizes are handled by the recorder in either case."""


def disable_dynamic_shape():
    """Accepted, as enable_dynamic_shape."""


def ipc_collect():
    """No memory is shared between processes: nothing to collect."""


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True):
    """Random numbers of the CPU and of the devices (None: those that are open) go on behind it as if it had not been."""
    if not enabled:
        yield
        return
    which = [i for i in range(_C.device_count()) if _C.is_open(i)] if devices is None else [index_of(one) for one in devices]
    cpu, states = torch.get_rng_state(), {i: _C.default_generator(i).get_state() for i in which}
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        for i, state in states.items():
            _C.default_generator(i).set_state(state)


NAMES = ["disable_dynamic_shape", "disable_inference_mode", "enable_dynamic_shape", "enable_inference_mode", "getDeterministic", "get_arch_list", "get_device_type",
         "get_gencode_flags", "ipc_collect", "is_bf16_available", "is_inference_mode", "max_memory_cached", "memory_cached", "memory_usage", "reset_max_memory_cached",
         "sdp_kernel", "setDeterministic", "set_sync_debug_mode"]
