# SPDX-License-Identifier: Apache-2.0
"""One hierarchy of exceptions: each is an openhpu.Error with a code, and what Python itself would raise; and the checks of
numbers that the extension would refuse in words of its own."""

import math
import operator


class Error(Exception):
    """A call of OpenHPU that failed. The message says what happened, where, and what to do.

    code: the canonical name of the failure, such as "INVALID_ARGUMENT".
    work: of work on a device that failed, a dict of device, stream, operation, label and node; else None.
    unsupported: of a model that cannot be compiled, a dict of op, node and reason for each such node."""

    code = "UNKNOWN"

    def __init__(self, message="", work=None, unsupported=()):
        super().__init__(message)
        self.message = message
        self.work = work
        self.unsupported = list(unsupported)

    def __str__(self):
        return self.message

    def __reduce__(self):
        return type(self), (self.message, self.work, self.unsupported)


class CancelledError(Error):
    """Work that a reset of the device dropped, or a compilation that was cancelled."""

    code = "CANCELLED"


class InvalidArgumentError(Error, ValueError):
    """The caller's input is wrong."""

    code = "INVALID_ARGUMENT"


class DeadlineExceededError(Error, TimeoutError):
    """A wait reached its deadline; what was waited for goes on."""

    code = "DEADLINE_EXCEEDED"


class NotFoundError(Error, LookupError):
    """Something that was named is not there."""

    code = "NOT_FOUND"


class MissingFileError(NotFoundError, FileNotFoundError):
    """A file is not there."""


class AlreadyExistsError(Error, FileExistsError):
    code = "ALREADY_EXISTS"


class PermissionDeniedError(Error, PermissionError):
    code = "PERMISSION_DENIED"


class ResourceExhaustedError(Error, MemoryError):
    """Out of device memory, host memory, or devices."""

    code = "RESOURCE_EXHAUSTED"


class FailedPreconditionError(Error, RuntimeError):
    """The object is not in the state that the call needs."""

    code = "FAILED_PRECONDITION"


class AbortedError(Error, RuntimeError):
    code = "ABORTED"


class OutOfRangeError(Error, IndexError):
    code = "OUT_OF_RANGE"


class UnimplementedError(Error, NotImplementedError):
    """An op or a feature that OpenHPU does not have."""

    code = "UNIMPLEMENTED"


class InternalError(Error, RuntimeError):
    """A bug of OpenHPU."""

    code = "INTERNAL"


class UnavailableError(Error, RuntimeError):
    """A device that another process uses."""

    code = "UNAVAILABLE"


class DataLossError(Error):
    """A file is truncated or corrupt."""

    code = "DATA_LOSS"


_BY_CODE = {one.code: one for one in (
    CancelledError, InvalidArgumentError, DeadlineExceededError, NotFoundError, AlreadyExistsError, PermissionDeniedError,
    ResourceExhaustedError, FailedPreconditionError, AbortedError, OutOfRangeError, UnimplementedError, InternalError,
    UnavailableError, DataLossError)}


def from_status(code, message, work, unsupported):
    """The exception for a Status of the C++ API."""
    return _BY_CODE.get(code, Error)(message, work, unsupported)


def integer(name, value, low=-1 << 63, high=(1 << 63) - 1):
    """An int, of whatever integer's type, between the bounds; TypeError for what is none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is an integer, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise InvalidArgumentError(f"{name}={number} is out of range: it is between {low} and {high}")
    return number


def seconds(timeout):
    """A wait's timeout: a float of seconds, or None."""
    if timeout is None:
        return None
    if isinstance(timeout, (str, bytes)) or not hasattr(timeout, "__float__") and not hasattr(timeout, "__index__"):
        raise TypeError(f"timeout is a number of seconds or None, not {type(timeout).__name__}")
    number = float(timeout)
    if math.isnan(number):
        raise InvalidArgumentError("timeout=nan is no number of seconds; None waits without one")
    return number
