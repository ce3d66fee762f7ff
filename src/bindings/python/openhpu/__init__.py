# SPDX-License-Identifier: Apache-2.0
"""OpenHPU in Python: compile models, run them on simulated HPUs with numpy arrays, profile and verify them.

    recipe = openhpu.compile("model.onnx")
    session = openhpu.Session(recipe)
    outputs = session.run({"image": images})

docs/python.md is the guide."""

import atexit as _atexit

from . import _core
from ._device import Buffer, Device
from ._errors import (AbortedError, AlreadyExistsError, CancelledError, DataLossError, DeadlineExceededError, Error,
                      FailedPreconditionError, InternalError, InvalidArgumentError, MissingFileError, NotFoundError,
                      OutOfRangeError, PermissionDeniedError, ResourceExhaustedError, UnavailableError,
                      UnimplementedError)
from ._recipe import Compilation, Recipe, compile, compile_async, load, supported_ops
from ._session import Future, Session
from ._state import State
from ._tensors import HostTensor, TensorInfo, from_bits, from_dlpack, to_bits
from ._verify import calibrate, random_inputs, trace, verify

__version__ = _core.version
__all__ = ["AbortedError", "AlreadyExistsError", "Buffer", "CancelledError", "Compilation", "DataLossError",
           "DeadlineExceededError", "Device", "Error", "FailedPreconditionError", "Future", "HostTensor", "InternalError",
           "InvalidArgumentError", "MissingFileError", "NotFoundError", "OutOfRangeError", "PermissionDeniedError", "Recipe",
           "ResourceExhaustedError", "Session", "State", "TensorInfo", "UnavailableError", "UnimplementedError", "calibrate", "compile",
           "compile_async", "from_bits", "from_dlpack", "load", "random_inputs", "supported_ops", "to_bits", "trace", "verify"]

# What the interpreter was computing for a caller that was interrupted goes on; the process ends when it is done.
_atexit.register(_core.finish_jobs)
