# SPDX-License-Identifier: Apache-2.0
"""Settings of Gaudi's bridge as programs ask for them."""
import os

from hpu_torch import _C


def get_pt_hpu_lazy_mode():
    return _C.is_lazy()


def get_pt_hpu_gpu_migration():
    """Calls for CUDA are not turned into calls for hpu."""
    return False


def get_pt_hpu_max_compound_op_size():
    return int(os.environ.get("PT_HPU_MAX_COMPOUND_OP_SIZE", 4096))
