# SPDX-License-Identifier: Apache-2.0
"""The end of the process. Autograd's thread of a device may still be dropping Python's part of the last backward pass (of a
torch.autograd.Function) when the interpreter ends, which then ends the process with an abort. The thread does one thing after the
other: once it has done a backward pass of nothing, it has dropped all before."""
import atexit

import torch

from . import _C


def _finish_backward():
    if _C.is_forked_child():
        return
    for index in range(_C.device_count()):
        if _C.is_open(index):
            try:
                nothing = torch.empty(0, device=f"hpu:{index}", requires_grad=True)
                nothing.view(0).backward(torch.empty(0, device=f"hpu:{index}"))
            except Exception:  # A device that has failed; whoever used it was told.
                pass


def install():
    atexit.register(_finish_backward)
