# SPDX-License-Identifier: Apache-2.0
"""Element types in numpy's terms, and arrays as the device wants them."""

from typing import NamedTuple, Optional, Tuple

import math

import numpy as np

from . import _core
from ._errors import InvalidArgumentError, UnimplementedError

_NUMPY = {name: np.dtype(kind) for name, kind in {
    "f32": np.float32, "f16": np.float16, "f64": np.float64, "bool": np.bool_,
    "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}.items()}
# Types that numpy lacks: the type of their bits, and what the package ml_dtypes calls them.
_BITS = {"bf16": (np.dtype(np.uint16), "bfloat16"), "f8e4m3": (np.dtype(np.uint8), "float8_e4m3fn"),
         "f8e5m2": (np.dtype(np.uint8), "float8_e5m2"), "f8e4m3ieee": (np.dtype(np.uint8), "float8_e4m3")}


class TensorInfo(NamedTuple):
    """A named input or output. dtype is OpenHPU's name of the element type: "f32", "bf16", "i64" … A free dimension's size
    is None."""

    name: str
    dtype: str
    shape: Tuple[Optional[int], ...]

    @property
    def numpy_dtype(self):
        """What run() returns: bf16 and fp8 as float32, everything else as it is."""
        return np.dtype(np.float32) if self.dtype in _BITS else _NUMPY[self.dtype]

    @property
    def bits_dtype(self):
        """What the device has: bf16 as uint16, fp8 as uint8, everything else as it is."""
        return _BITS[self.dtype][0] if self.dtype in _BITS else _NUMPY[self.dtype]

    @property
    def nbytes(self):
        """None when a dimension is free."""
        return None if None in self.shape else math.prod(self.shape) * self.bits_dtype.itemsize


def to_bits(values, dtype):
    """float32 numbers as the bit patterns of "bf16" (uint16) or of an fp8 type (uint8), rounded to nearest, ties to
    even; fp8 saturates."""
    if dtype not in _BITS:
        raise InvalidArgumentError(f"'{dtype}' has a numpy type of its own; the types that need bits are {', '.join(_BITS)}")
    values = np.asarray(values, dtype=np.float32, order="C")
    return np.frombuffer(bytearray(_core.encode(values, dtype)), dtype=_BITS[dtype][0]).reshape(values.shape)


def from_bits(bits, dtype):
    """Bit patterns of "bf16" (uint16) or of an fp8 type (uint8) as float32 numbers, exactly."""
    if dtype not in _BITS:
        raise InvalidArgumentError(f"'{dtype}' has a numpy type of its own; the types that need bits are {', '.join(_BITS)}")
    bits = np.asarray(bits, order="C")
    if bits.dtype != _BITS[dtype][0]:
        raise InvalidArgumentError(f"the bits of {dtype} are {_BITS[dtype][0]}, but {bits.dtype} was given")
    values = np.empty(bits.shape, dtype=np.float32)
    _core.decode(bits, dtype, values)
    return values


class Tensor:
    """What host tensors and buffers have in common: `_info` is their TensorInfo, and numpy() gives their numbers."""

    @property
    def shape(self):
        return self._info.shape

    @property
    def dtype(self):
        """OpenHPU's name of the element type."""
        return self._info.dtype

    @property
    def nbytes(self):
        return self._info.nbytes

    def __array__(self, dtype=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)


class HostTensor(Tensor):
    """Host memory that other libraries use without a copy (DLPack): a numpy array with OpenHPU's name of its element type.
    HostTensor(bits, "bf16") has numbers that numpy has no type for; without a dtype it is the array's own."""

    def __init__(self, array, dtype=None):
        if not isinstance(array, np.ndarray):
            raise InvalidArgumentError(f"a HostTensor is over the memory of a numpy array, but {type(array).__name__} was given")
        if dtype is None:
            dtype = next((name for name, kind in _NUMPY.items() if kind == array.dtype), None)
        if dtype not in _NUMPY and dtype not in _BITS:
            raise InvalidArgumentError(f"there is no element type for {array.dtype if dtype is None else repr(dtype)}")
        self._info = TensorInfo("", dtype, array.shape)
        if array.dtype != self._info.bits_dtype:
            raise InvalidArgumentError(f"{dtype} is in arrays of {self._info.bits_dtype}, but one of {array.dtype} was given")
        self._bits = array

    def numpy(self, *, raw=False):
        """The same memory as a numpy array; bf16 and fp8 are copied to float32, or with raw=True their bits."""
        return self._bits if raw or self.dtype not in _BITS else from_bits(self._bits, self.dtype)

    def __dlpack__(self, stream=None):
        if stream is not None:
            raise InvalidArgumentError("__dlpack__: host memory is of no stream; pass stream=None")
        return _core.give_capsule(self._bits, self.dtype)

    def __dlpack_device__(self):
        return (1, 0)  # kDLCPU.

    def __repr__(self):
        return f"<openhpu.HostTensor {self.dtype} {shape_text(self.shape)}>"


_HOST_DEVICES = (1, 3, 11)  # kDLCPU, and pinned memory of CUDA and ROCm.


def from_dlpack(tensor):
    """A HostTensor over the memory of another library's tensor in host memory, which stays as long as it is used. `tensor`
    has __dlpack__ (of torch, numpy, JAX, CuPy …), or is a capsule of torch.utils.dlpack.to_dlpack()."""
    if hasattr(tensor, "__dlpack__"):
        if hasattr(tensor, "__dlpack_device__"):
            kind = int(tensor.__dlpack_device__()[0])
            if kind not in _HOST_DEVICES:
                raise UnimplementedError(f"from_dlpack: the tensor is not in host memory (DLPack device type {kind}); copy it to "
                                         "the CPU first")
        tensor = tensor.__dlpack__()
    elif type(tensor).__name__ != "PyCapsule":
        raise InvalidArgumentError(f"from_dlpack takes what has __dlpack__(), but {type(tensor).__name__} was given")
    dtype, bits = _core.take_capsule(tensor, lambda name: TensorInfo("", name, ()).bits_dtype)
    return HostTensor(bits, dtype)


def shape_fits(shape, wanted):
    """Whether it is `wanted`, where free dimensions take any size."""
    return len(shape) == len(wanted) and all(fixed in (None, size) for size, fixed in zip(shape, wanted))


def shape_text(shape):
    return "x".join("?" if dim is None else str(dim) for dim in shape) if shape else "scalar"


def _accepted(info):
    if info.dtype in _BITS:
        return f"{info.dtype} (numpy float32, or {info.bits_dtype} bits)"
    return f"{info.dtype} (numpy {info.numpy_dtype})"


def device_array(value, info, check_shape=True):
    """`value` as dense memory of the device's type; a view of it where that is possible."""
    where = f"input '{info.name}'"
    if isinstance(value, HostTensor):
        if value.dtype != info.dtype:
            raise InvalidArgumentError(f"{where} is {_accepted(info)}, but a HostTensor of {value.dtype} was given (shape "
                                       f"{shape_text(value.shape)})")
        value = value.numpy(raw=True)
    if not hasattr(value, "dtype") and not hasattr(value, "__array__"):
        # Numbers and lists have no type of their own.
        try:
            value = np.asarray(value, dtype=info.numpy_dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"{where} is {_accepted(info)}; {type(value).__name__} does not convert: {error}") from None
    array = np.asarray(value)
    if check_shape and not shape_fits(array.shape, info.shape):
        raise InvalidArgumentError(f"{where} has the shape {shape_text(info.shape)}, but an array of shape "
                                   f"{shape_text(array.shape)} was given")
    if info.dtype in _BITS and array.dtype == np.float32:
        return to_bits(array, info.dtype)
    if info.dtype in _BITS and array.dtype.name == _BITS[info.dtype][1]:
        array = array.view(info.bits_dtype)
    native = array.dtype.newbyteorder("=")
    if native != info.bits_dtype:
        raise InvalidArgumentError(f"{where} is {_accepted(info)}, but an array of {array.dtype} was given (shape "
                                   f"{shape_text(array.shape)}); convert it with .astype()")
    return np.asarray(array, dtype=native, order="C")


def named(values, infos, kind):
    """The values in the order of `infos`: of a dict by name, of a sequence by position."""
    names = [info.name for info in infos]
    listed = ", ".join(f"'{name}'" for name in names) or "none"
    if isinstance(values, dict):
        for name in values:
            if name not in names:
                raise InvalidArgumentError(f"there is no {kind} '{name}'; the {kind}s are {listed}")
        for name in names:
            if name not in values:
                raise InvalidArgumentError(f"{kind} '{name}' is missing; the {kind}s are {listed}")
        return [values[name] for name in names]
    if len(values) != len(names):
        raise InvalidArgumentError(f"the model has {len(names)} {kind}s ({listed}), but {len(values)} were given")
    return list(values)
