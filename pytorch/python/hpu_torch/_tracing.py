# SPDX-License-Identifier: Apache-2.0
"""Whether this thread runs Python code to compile it (compiler.py), apart from what that takes to import."""
import contextlib
import random
import sys
import threading

import torch

_threads = threading.local()

# Held while code is traced or captured, of which there is one at a time on a device: threads that meet a kind of call for the first
# time do so one after the other.
capturing = threading.RLock()


def is_tracing():
    return getattr(_threads, "is_tracing", False)


@contextlib.contextmanager
def tracing():
    before, _threads.is_tracing = is_tracing(), True
    try:
        yield
    finally:
        _threads.is_tracing = before


class HostDraws:
    """Whether Python code draws random numbers on the host: what is traced or captured would repeat them for ever."""

    def __init__(self):
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def any(self):
        if not torch.equal(self._torch, torch.get_rng_state()) or self._python != random.getstate():
            return True
        if self._numpy is None:
            return False
        now = sys.modules["numpy"].random.get_state()
        return now[2:] != self._numpy[2:] or bool((now[1] != self._numpy[1]).any())

    def undo(self):
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)
