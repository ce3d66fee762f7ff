# SPDX-License-Identifier: Apache-2.0
"""Functions that run behind the next mark_step, when the step's values are there: printing a loss does not cut the step's graph."""
import threading

_closures, _lock = [], threading.Lock()


def add_step_closure(closure, args=()):
    """closure(*args) runs once, behind the next mark_step of any thread."""
    if not callable(closure):
        raise TypeError(f"add_step_closure takes a function, not {type(closure).__name__}")
    with _lock:
        _closures.append((closure, tuple(args)))


def run_step_closures():
    with _lock:
        waiting = _closures[:]
        _closures.clear()
    for closure, args in waiting:
        closure(*args)


def _mark_step_if_lazy():
    from . import _C, core
    if _C.is_lazy():
        core.mark_step()
