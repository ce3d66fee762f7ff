# SPDX-License-Identifier: Apache-2.0
"""`await` for what the extension does: one thread hears what is done and wakes the event loops that wait for it.

The one thing to know: no loop and no executor is blocked meanwhile, so an await can be cancelled (asyncio.wait_for, Ctrl-C)
whatever the device does."""

import asyncio
import atexit
import itertools
import os
import threading

from . import _core


class _Watcher:
    """Waits for the extension's tokens. Any thread may call."""

    def __init__(self):
        self._waiting = {}  # {token: (loop, its future)}; single operations, which are atomic.
        self._tokens = itertools.count(1)
        self._thread = threading.Thread(target=self._watch, name="openhpu-await", daemon=True)
        self._thread.start()

    def future(self, work):
        """A future of the running loop, whose result is None when `work` (what has notify()) is done."""
        loop = asyncio.get_running_loop()
        waiter, token = loop.create_future(), next(self._tokens)
        self._waiting[token] = (loop, waiter)
        waiter.add_done_callback(lambda _: self._waiting.pop(token, None))  # Also when it is cancelled.
        try:
            work.notify(token)
        except BaseException:
            waiter.cancel()
            raise
        return waiter

    def stop(self):
        _core.close_done()
        self._thread.join()

    def _watch(self):
        while tokens := _core.next_done():
            for token in tokens:
                loop, waiter = self._waiting.pop(token, (None, None))
                if loop is not None:
                    try:
                        loop.call_soon_threadsafe(_wake, waiter)
                    except RuntimeError:
                        pass  # The loop was closed.


def _wake(waiter):
    if not waiter.done():
        waiter.set_result(None)


_watcher = None
_lock = threading.Lock()


def until_done(work):
    """Of a coroutine: `yield from until_done(work)` in an __await__ returns when work.notify() has told."""
    global _watcher
    with _lock:
        if _watcher is None:
            _watcher = _Watcher()
        watcher = _watcher
    return watcher.future(work).__await__()


def _after_fork():
    """A forked child has none of its parent's threads."""
    global _watcher, _lock
    _watcher, _lock = None, threading.Lock()


@atexit.register
def _stop():
    if _watcher is not None:
        _watcher.stop()


os.register_at_fork(after_in_child=_after_fork)
