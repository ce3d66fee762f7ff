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
from . import _checkpoint, _data, _exit, _generator, _modules, _serialization, _tensors  # noqa: E402

_C.set_library_folders([_os.path.dirname(_os.path.realpath(_torch.__file__)) + "/", _os.path.dirname(_torch.__file__) + "/",
                        _os.path.dirname(_os.path.realpath(__file__)) + "/", _os.path.dirname(__file__) + "/"])
_torch._register_device_module("hpu", hpu)
for _part in ("graphs", "memory", "random", "streams"):  # `import torch.hpu.random` means the same module, not a second one.
    _sys.modules["torch.hpu." + _part] = getattr(hpu, _part)
for _part in (_tensors, _modules, _generator, _serialization, _checkpoint, _data, _exit):
    _part.install()

from . import _surface, amp, core, distributed, profiler  # noqa: E402
from .ops import ops_table  # noqa: E402

_surface.install()
distributed.install()


def __getattr__(name):
    if name in ("compile", "compiler"):  # functorch takes a while to import.
        import importlib
        compiler = importlib.import_module(".compiler", __name__)
        globals()["compile"] = compiler.compile
        return globals()[name] if name == "compile" else compiler
    raise AttributeError(f"module 'hpu_torch' has no attribute '{name}'")


__all__ = ["amp", "compile", "core", "distributed", "fallback", "hpu", "metrics", "ops_table", "profiler"]
