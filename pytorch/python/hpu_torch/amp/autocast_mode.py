# SPDX-License-Identifier: Apache-2.0
"""torch.autocast("hpu"): PyTorch's class knows CUDA, the CPU and XPUs. Its methods are wrapped, so that torch.autocast stays the class that
others import."""
import functools

import torch

from .. import _C


def is_autocast_hpu_enabled():
    """Of the calling thread."""
    return _C.autocast_enabled()


def set_autocast_hpu_enabled(enabled):
    _C.set_autocast_enabled(bool(enabled))


def get_autocast_hpu_dtype():
    """What autocast casts to where it is enabled: torch.bfloat16 or torch.float16."""
    return _C.autocast_dtype()


def set_autocast_hpu_dtype(dtype):
    _C.set_autocast_dtype(dtype)


def op_lists():
    """(lower, fp32, promote): names of the aten ops of each kind."""
    return _C.autocast_lists()


def set_op_lists(lower=None, fp32=None, promote=None):
    """Replaces lists, for the process; None leaves one as it is. ValueError names what is no op."""
    lists = [list(old if new is None else new) for new, old in zip((lower, fp32, promote), op_lists())]
    _C.set_autocast_lists(*lists)


class autocast(torch.autocast):
    """torch.autocast("hpu", ...), as a context or a decorator."""

    def __init__(self, enabled=True, dtype=torch.bfloat16, cache_enabled=True):
        super().__init__("hpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def _cast(value, dtype):
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.device.type == "hpu" and value.is_floating_point() and value.dtype != torch.float64 else value
    if isinstance(value, dict):
        return {_cast(key, dtype): _cast(one, dtype) for key, one in value.items()}
    return type(value)(_cast(one, dtype) for one in value) if isinstance(value, (list, tuple)) else value


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Of a torch.autograd.Function's forward: remembers autocast's state for custom_bwd; with cast_inputs, casts hpu tensors to that type
    and runs without autocast."""
    if fwd is None:
        return functools.partial(custom_fwd, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **options):
        ctx._hpu_autocast = (is_autocast_hpu_enabled() and cast_inputs is None, get_autocast_hpu_dtype())
        if cast_inputs is None or not is_autocast_hpu_enabled():
            return fwd(ctx, *args, **options)
        with autocast(enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **_cast(options, cast_inputs))
    return decorated


def custom_bwd(bwd):
    """Of its backward: runs in the state that the forward had."""
    @functools.wraps(bwd)
    def decorated(ctx, *args, **options):
        enabled, dtype = ctx._hpu_autocast
        with autocast(enabled=enabled, dtype=dtype):
            return bwd(ctx, *args, **options)
    return decorated


def install():
    original = torch.autocast
    init, enter, leave = original.__init__, original.__enter__, original.__exit__

    @functools.wraps(init)
    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type != "hpu":
            return init(self, device_type, dtype, enabled, cache_enabled)
        self.device = "hpu"
        self.fast_dtype = get_autocast_hpu_dtype() if dtype is None else dtype
        if self.fast_dtype not in (torch.bfloat16, torch.float16):
            raise ValueError(f"autocast on hpu casts to torch.bfloat16 or torch.float16, not to {self.fast_dtype}")
        self._enabled = enabled
        self._cache_enabled = torch.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled

    @functools.wraps(enter)
    def __enter__(self):
        if self.device != "hpu":
            return enter(self)
        before = (is_autocast_hpu_enabled(), get_autocast_hpu_dtype(), torch.is_autocast_cache_enabled())
        set_autocast_hpu_enabled(self._enabled)  # Throws when a list has what is no op.
        set_autocast_hpu_dtype(self.fast_dtype)
        torch.set_autocast_cache_enabled(self._cache_enabled)
        torch.autocast_increment_nesting()
        self.__dict__.setdefault("_before", []).append(before)  # One object may be entered again (a decorated function that calls itself).
        return self

    @functools.wraps(leave)
    def __exit__(self, *error):
        if self.device != "hpu":
            return leave(self, *error)
        if torch.autocast_decrement_nesting() == 0:
            _C.clear_autocast_cache()
            torch.clear_autocast_cache()
        enabled, dtype, cached = self._before.pop()
        set_autocast_hpu_enabled(enabled)
        set_autocast_hpu_dtype(dtype)
        torch.set_autocast_cache_enabled(cached)
        return False

    original.__init__, original.__enter__, original.__exit__ = __init__, __enter__, __exit__
