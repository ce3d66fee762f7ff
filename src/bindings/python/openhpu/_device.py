# SPDX-License-Identifier: Apache-2.0
"""Devices and their memory."""

import os
import weakref

import numpy as np

from . import _core
from ._errors import FailedPreconditionError, integer, InvalidArgumentError, seconds, UnimplementedError
from ._tensors import HostTensor, Tensor, TensorInfo, from_bits, device_array, shape_text


class Device:
    """An open device of the node: the one with this index (0 to 7), or the first that nobody uses. It is this process's
    until the last session and buffer on it are gone."""

    def __init__(self, index=None, target="gaudi2", *, driver="sim", threads=0, hbm_bytes=0):
        int32 = (-1 << 31, (1 << 31) - 1)
        for name, value in (("target", target), ("driver", driver)):
            if not isinstance(value, str):
                raise TypeError(f"{name} is a name, not {type(value).__name__}")
        self._core = _core.Device(-1 if index is None else integer("index", index, *int32), target, driver,
                                  integer("threads", threads, *int32), integer("hbm_bytes", hbm_bytes))
        self._info = self._core.info()

    @property
    def index(self):
        return self._info["index"]

    @property
    def target(self):
        return self._info["target"]

    @property
    def name(self):
        return self._info["name"]

    @property
    def info(self):
        return dict(self._info)

    @property
    def memory(self):
        """Bytes of HBM: total, used, peak, the largest free block, and the number of allocations."""
        return self._core.memory()

    @property
    def counters(self):
        """Modelled busy nanoseconds by engine and the device clock, since the device was opened."""
        return self._core.counters()

    def allocate(self, shape, dtype="f32", *, label=""):
        """A buffer for an array; its contents are not defined."""
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(dim) for dim in shape)
        if any(dim < 0 for dim in shape):
            raise InvalidArgumentError(f"an array cannot have the shape {shape}: its sizes are at least 0")
        info = TensorInfo(label, dtype_name(dtype), shape)
        if info.nbytes >= 1 << 63:
            raise InvalidArgumentError(f"an array of the shape {shape} has {info.nbytes} bytes: no device has them")
        return Buffer(self, info)

    def to_device(self, array, dtype=None, *, label=""):
        """A buffer with a copy of an array; dtype as of allocate() ("bf16" converts float32)."""
        if not isinstance(array, HostTensor):
            array = np.asarray(array)
        buffer = self.allocate(array.shape, dtype_name(array.dtype if dtype is None else dtype), label=label)
        buffer.write(array)
        return buffer

    def reset(self):
        """Makes a failed or stuck device usable again: drops all work. Memory, sessions and buffers stay."""
        self._core.reset()

    def inject(self, fault, count=1):
        """Injects a fault, to test what a program does then (docs/node.md): corrected_ecc, uncorrected_ecc, non_fatal_event,
        fatal_event, endless_command, lost_heartbeat or thermal. reset() ends it."""
        self._core.inject(fault, integer("count", count, -1 << 31, (1 << 31) - 1))

    def __repr__(self):
        return f"<openhpu.Device {self.index}: {self.name} ({self.target})>"


def dtype_name(dtype):
    """OpenHPU's name of a numpy type or of itself."""
    if isinstance(dtype, str) and dtype in TENSOR_TYPES:
        return dtype
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    for name in TENSOR_TYPES:
        if kind is not None and name not in ("bf16", "f8e4m3", "f8e5m2", "f8e4m3ieee"):
            if TensorInfo("", name, ()).numpy_dtype == kind.newbyteorder("="):
                return name
    raise InvalidArgumentError(f"the device has no type '{dtype}'; its types are {', '.join(TENSOR_TYPES)}")


TENSOR_TYPES = ("f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f8e4m3ieee", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64",
                "bool", "f64")


class Buffer(Tensor):
    """An array in a device's memory: Device.allocate() and to_device() make them. Freed with the last reference."""

    def __init__(self, device, info):
        self._device = device
        self._info = info
        self._core = device._core.allocate(max(info.nbytes, 1), info.name)

    @property
    def device(self):
        return self._device

    @property
    def address(self):
        return self._core.address()

    def write(self, array, *, timeout=None):
        """Copies an array of this shape and type to the device, and waits."""
        self._core.write(device_array(array, self._info._replace(name=self._info.name or "the buffer")), seconds(timeout))

    def numpy(self, *, raw=False, timeout=None):
        """A copy as a numpy array; bf16 and fp8 as float32, or with raw=True as their bits."""
        bits = np.empty(self._info.shape, dtype=self._info.bits_dtype)
        self._core.read(bits, seconds(timeout))
        return bits if raw or self._info.bits_dtype == self._info.numpy_dtype else from_bits(bits, self._info.dtype)

    def __dlpack__(self, stream=None):
        raise UnimplementedError(f"the memory of device {self._device.index} is not shared with other libraries; share a copy: "
                                 "openhpu.HostTensor(buffer.numpy(raw=True), buffer.dtype)")

    def __dlpack_device__(self):
        self.__dlpack__()

    def __repr__(self):
        return f"<openhpu.Buffer {self.dtype} {shape_text(self.shape)} on device {self._device.index}>"


_shared = {}


def shared_device(target):
    """The device of sessions that were given none: one for each target, as long as one of them lives."""
    process, reference = _shared.get(target, (None, None))
    device = reference() if reference is not None and process == os.getpid() else None
    if device is None:
        device = Device(target=target)
        _shared[target] = (os.getpid(), weakref.ref(device))
    return device


def check_target(device, recipe):
    if device.target != recipe.target:
        raise FailedPreconditionError(f"the recipe '{recipe.name}' is for {recipe.target}, the device is a {device.target}; "
                                      f"compile with target='{device.target}'")
