# SPDX-License-Identifier: Apache-2.0
"""torch.distributed on hpu: the backend "hccl", helpers that train over several devices, and the errors of collectives.

    import torch.distributed as dist
    import hpu_torch.distributed            # import hpu_torch does it, too

    dist.init_process_group("hccl")         # RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
    net = torch.nn.parallel.DistributedDataParallel(net.to("hpu"))"""
import torch.distributed as _dist

from .. import _C
from . import _ddp, context_parallel, fast_ddp, tensor_parallel
from .errors import CollectiveError, CollectiveTimeoutError
from .launch import initialize_distributed_hpu

__all__ = ["CollectiveError", "CollectiveTimeoutError", "ProcessGroupHCCL", "context_parallel", "fast_ddp", "initialize_distributed_hpu",
           "tensor_parallel"]

ProcessGroupHCCL = _C.ProcessGroupHCCL


def _create(options, pg_options):
    return ProcessGroupHCCL(options.store, options.group_rank, options.group_size, options.timeout, options.group_id)


def install():
    _C.set_collective_errors(CollectiveError, CollectiveTimeoutError)
    if "HCCL" not in _dist.Backend._plugins:
        _dist.Backend.register_backend("hccl", _create, extended_api=True)
    _ddp.install()
