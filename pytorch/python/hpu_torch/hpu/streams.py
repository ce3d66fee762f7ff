# SPDX-License-Identifier: Apache-2.0
"""Streams and events of hpu devices."""
import torch

from .. import _C
from ._index import index_of

_HPU, _ID_BITS = 15, (1 << 48) - 1  # c10::DeviceType::HPU; how torch.Stream packs a stream into a number.


class Stream(torch.Stream):
    """A queue of work. Stream(device=None, priority=0) is one of the device's pool; a negative priority is a high one."""

    def __new__(cls, device=None, priority=0, *, stream_id=None):
        index = index_of(device)
        stream_id = _C.pool_stream(index, priority < 0) if stream_id is None else stream_id
        return super().__new__(cls, _cdata=_HPU << 56 | index << 48 | stream_id)

    @property
    def stream_id(self):
        return self._cdata & _ID_BITS

    @property
    def priority(self):
        return -1 if self.stream_id > 32 else 0

    @property
    def device_index(self):
        return self._cdata >> 48 & 0xff

    def synchronize(self):
        """Waits for what the stream was given; an exception says what has failed of it."""
        _C.stream_synchronize(self.device_index, self.stream_id)

    def query(self):
        """Whether all of it is done."""
        return _C.stream_query(self.device_index, self.stream_id)

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """What the stream is given from now on comes after the event."""
        event.wait(self)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    def __enter__(self):
        self._context = StreamContext(self)
        return self._context.__enter__()

    def __exit__(self, *error):
        return self._context.__exit__(*error)

    __hash__ = lambda self: hash(self._cdata)  # noqa: E731: PyTorch's class compares, and has no hash.

    def __repr__(self):
        return f"<torch.hpu.Stream device=hpu:{self.device_index} id={self.stream_id}>"


class Event:
    """A point in a stream's work. Times are of the device's modelled clock."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        if interprocess:
            raise NotImplementedError("events of hpu devices are not shared between processes here")
        self._event = _C.Event(enable_timing)

    def record(self, stream=None):
        stream = current_stream() if stream is None else stream
        self._event.record(stream.device_index, stream.stream_id)

    def wait(self, stream=None):
        stream = current_stream() if stream is None else stream
        self._event.wait(stream.device_index, stream.stream_id)

    def query(self):
        return self._event.query()

    def synchronize(self):
        self._event.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds of device time from this event to the other, both done and made with enable_timing=True."""
        return self._event.elapsed_time(end_event._event)


def current_stream(device=None):
    index = index_of(device)
    return Stream(index, stream_id=_C.current_stream(index))


def default_stream(device=None):
    return Stream(index_of(device), stream_id=0)


def set_stream(stream):
    """For the calling thread; the current device stays. None changes nothing."""
    if stream is not None:
        _C.set_stream(stream.device_index, stream.stream_id)


class StreamContext:
    """with torch.hpu.stream(s): the stream and its device are current."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return self.stream
        self.device = _C.current_device()
        self.before = _C.current_stream(self.stream.device_index)
        _C.set_device(self.stream.device_index)
        _C.set_stream(self.stream.device_index, self.stream.stream_id)
        return self.stream

    def __exit__(self, *error):
        if self.stream is not None:
            _C.set_stream(self.stream.device_index, self.before)
            _C.set_device(self.device)
        return False


def stream(stream):
    return StreamContext(stream)
