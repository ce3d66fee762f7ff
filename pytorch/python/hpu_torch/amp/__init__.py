# SPDX-License-Identifier: Apache-2.0
"""torch.hpu.amp: mixed precision on hpu, under the names of torch.cuda.amp.

    with torch.autocast("hpu", dtype=torch.bfloat16):   # or torch.hpu.amp.autocast()
        loss = F.cross_entropy(net(x), target)
    loss.backward()"""
from .autocast_mode import (autocast, custom_bwd, custom_fwd, get_autocast_hpu_dtype, is_autocast_hpu_enabled, op_lists, set_autocast_hpu_dtype,
                       set_autocast_hpu_enabled, set_op_lists)
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_autocast_hpu_dtype", "is_autocast_hpu_enabled", "op_lists",
           "set_autocast_hpu_dtype", "set_autocast_hpu_enabled", "set_op_lists"]
