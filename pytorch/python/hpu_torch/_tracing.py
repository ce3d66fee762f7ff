# SPDX-License-Identifier: Apache-2.0
"""Whether this thread runs Python code to compile it (compiler.py), apart from what that takes to import."""
import contextlib
import threading

_threads = threading.local()


def is_tracing():
    return getattr(_threads, "is_tracing", False)


@contextlib.contextmanager
def tracing():
    before, _threads.is_tracing = is_tracing(), True
    try:
        yield
    finally:
        _threads.is_tracing = before
