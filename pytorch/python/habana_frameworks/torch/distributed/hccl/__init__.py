# SPDX-License-Identifier: Apache-2.0
"""What programs for Gaudi import before init_process_group("hccl"): the import is what registers the backend."""
import hpu_torch  # noqa: F401
from hpu_torch.distributed.launch import _setup_module_id, initialize_distributed_hpu  # noqa: F401
