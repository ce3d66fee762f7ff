# SPDX-License-Identifier: Apache-2.0
"""hpu devices in PyTorch. Importing the package is what makes `torch.device("hpu")` work:

    import torch, hpu_torch

    net = torch.nn.Linear(4, 2).to("hpu")
    y = net(torch.ones(3, 4, device="hpu"))

No device is opened before the first tensor is made on it. docs/pytorch.md is the guide."""
import os as _os
import sys as _sys

import torch as _torch

from . import _compat311

_compat311.apply()

from . import _C  # noqa: E402: after the repairs
from . import fallback, hpu, metrics  # noqa: E402
from . import _checkpoint, _data, _generator, _modules, _serialization, _tensors  # noqa: E402

_C.set_library_folders([_os.path.dirname(_os.path.realpath(_torch.__file__)) + "/", _os.path.dirname(_torch.__file__) + "/",
                        _os.path.dirname(_os.path.realpath(__file__)) + "/", _os.path.dirname(__file__) + "/"])
_torch._register_device_module("hpu", hpu)
for _part in ("memory", "random", "streams"):  # `import torch.hpu.random` means the same module, not a second one.
    _sys.modules["torch.hpu." + _part] = getattr(hpu, _part)
for _part in (_tensors, _modules, _generator, _serialization, _checkpoint, _data):
    _part.install()

from . import core  # noqa: E402
from . import distributed  # noqa: E402

distributed.install()

__all__ = ["core", "distributed", "fallback", "hpu", "metrics"]
