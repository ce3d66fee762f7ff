# SPDX-License-Identifier: Apache-2.0
"""torch.utils.checkpoint: what is computed again draws the same random numbers, and is under the same autocast. PyTorch saves the states of the
CPU and CUDA."""
import functools

import torch.utils.checkpoint

from . import _C


class _SameNumbers:
    """A function whose later calls draw the numbers of its first one, and leave the generators as they were."""

    def __init__(self, function):
        self.function, self.states = function, None

    @staticmethod
    def _get():
        return {i: _C.default_generator(i).get_state() for i in range(_C.device_count()) if _C.is_open(i)}

    @staticmethod
    def _set(states):
        for i, state in states.items():
            _C.default_generator(i).set_state(state)

    def __call__(self, *args, **options):
        if self.states is None:
            self.states = self._get()
            return self.function(*args, **options)
        now = self._get()
        self._set(self.states)
        try:
            return self.function(*args, **options)
        finally:
            self._set(now)


class _SameAutocast:
    """A function whose later calls are under the autocast of its first one."""

    def __init__(self, function):
        self.function, self.context = function, None

    def __call__(self, *args, **options):
        if self.context is None:
            self.context = {"dtype": _C.autocast_dtype(), "enabled": _C.autocast_enabled(), "cache_enabled": torch.is_autocast_cache_enabled()}
            return self.function(*args, **options)
        with torch.autocast("hpu", **self.context):
            return self.function(*args, **options)


def install():
    checkpoint = torch.utils.checkpoint.checkpoint

    @functools.wraps(checkpoint)
    def checkpoint_(function, *args, **options):
        preserve = options.get("preserve_rng_state", True)
        if preserve and _C.is_capturing(-1):
            raise RuntimeError("what a checkpoint computes again would draw other random numbers in a graph that is captured or compiled: leave "
                               "the checkpoint outside, or give it preserve_rng_state=False where nothing is drawn")
        function = _SameAutocast(function)
        return checkpoint(_SameNumbers(function) if preserve else function, *args, **options)

    torch.utils.checkpoint.checkpoint = checkpoint_
