# SPDX-License-Identifier: Apache-2.0
"""fp8_autocast's state of the thread, and the scale of a tensor over the steps of a training."""
import contextlib
import threading

import torch

from .. import _C
from .ops import cast_to_fp8, largest
from .recipe import DelayedScaling


class _State(threading.local):
    enabled, recipe, group, measure = False, None, None, None


_state = _State()


def is_fp8_enabled():
    return _state.enabled


def get_fp8_recipe():
    return _state.recipe or DelayedScaling()


def current_settings():
    """(recipe, group, force_measurement): what a backward needs to know of its forward's context."""
    return get_fp8_recipe(), _state.group, _state.measure


def is_fp8_available(device=None):
    """(whether the device has fp8, why not)."""
    target = _C.describe_device(-1 if device is None else torch.device(device).index or 0).get("target", "none")
    return (True, "") if target in ("gaudi2", "gaudi3") else (False, f"{target} has no fp8; Gaudi 2 and 3 have")


@contextlib.contextmanager
def fp8_autocast(enabled=True, fp8_recipe=None, fp8_group=None, force_measurement=None):
    """Layers of this package compute in fp8. force_measurement=False keeps scales as they are; True measures also where gradients are off.
    fp8_group: largest magnitudes are taken over the processes of the group."""
    if enabled:
        available, why = is_fp8_available()
        if not available:
            raise RuntimeError("fp8_autocast: " + why)
    before = _state.enabled, _state.recipe, _state.group, _state.measure
    _state.enabled, _state.recipe = enabled, fp8_recipe or DelayedScaling()
    _state.group, _state.measure = fp8_group, force_measurement
    try:
        yield
    finally:
        _state.enabled, _state.recipe, _state.group, _state.measure = before


class Scaling:
    """Of one tensor: its scale, what inverts it, and the magnitudes of the last steps. All on the device; nothing waits for it."""

    def __init__(self):
        self.history = self.scale = self.scale_inv = self.dtype = None
        self.steps = 0

    def cast(self, x, dtype, settings):
        """(codes, scale_inv). Measures and goes on by a step if the settings say so."""
        recipe, group, measure = settings
        if self.dtype != dtype or self.scale.device != x.device:  # A new format: its magnitudes begin again.
            self.dtype, self.steps, self.history = dtype, 0, None
            self.scale = self.scale_inv = torch.ones((), device=x.device)
        if self.history is None:
            self._rescale(self._over_group(x.detach().abs().amax().float(), recipe, group) if x.numel() else torch.zeros((), device=x.device), recipe)
        elif measure and self.steps % recipe.interval == 0:
            self._rescale(self._amax(recipe), recipe)
        if not measure:
            return cast_to_fp8(x, self.scale, dtype), self.scale_inv
        codes, amax = cast_to_fp8(x, self.scale, dtype, amax=True)
        amax = self._over_group(amax, recipe, group).reshape(1)
        kept = recipe.amax_history_len - 1
        self.history = amax if self.history is None or kept == 0 else torch.cat([amax, self.history[:kept]])
        self.steps += 1
        return codes, self.scale_inv

    def _amax(self, recipe):
        if callable(recipe.amax_compute_algo):
            return recipe.amax_compute_algo(self.history).reshape(())
        return self.history.max() if recipe.amax_compute_algo == "max" else self.history[0]

    def _rescale(self, amax, recipe):
        limit = largest(self.dtype, amax.device)
        if recipe.scaling_factor_compute_algo is not None:
            self.scale = recipe.scaling_factor_compute_algo(amax, self.scale, limit, recipe).reshape(())
            self.scale_inv = self.scale.reciprocal()
        else:
            self.scale, self.scale_inv = torch.ops.hpu.fp8_scale(amax, self.scale, limit, recipe.margin)

    @staticmethod
    def _over_group(amax, recipe, group):
        if group is not None and recipe.reduce_amax:
            amax = amax.contiguous()
            torch.distributed.all_reduce(amax, op=torch.distributed.ReduceOp.MAX, group=group)
        return amax
