# SPDX-License-Identifier: Apache-2.0
"""Which process of how many this is, and which device it takes."""
import os

import torch

# What each launcher calls world size, rank, and rank among the node's processes.
_LAUNCHERS = (("WORLD_SIZE", "RANK", "LOCAL_RANK"),
              ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
              ("PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"))


def _number(name):
    text = os.environ.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}={text} is no number") from None


def initialize_distributed_hpu(world_size=None, rank=None, local_rank=None):
    """(world size, rank, local rank) of this process: the arguments, else what torchrun or mpirun has set, else 1, 0, 0. Sets the
    variables that init_process_group("hccl") reads, where they are missing, and makes the local rank's device current.
    Without a rank it is NODE_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK; without a local rank, the rank modulo the node's processes
    (LOCAL_WORLD_SIZE, else its devices)."""
    given = [None if value in (None, -1) else value for value in (world_size, rank, local_rank)]
    for names in _LAUNCHERS:
        found = [_number(name) for name in names]
        if found[0] is not None:
            break
    world_size, rank, local_rank = (own if own is not None else other for own, other in zip(given, found))
    on_node = _number("LOCAL_WORLD_SIZE") or _number("OMPI_COMM_WORLD_LOCAL_SIZE") or max(1, torch.hpu.device_count())
    world_size = 1 if world_size is None else world_size
    if rank is None:
        rank = (_number("NODE_RANK") or 0) * on_node + (local_rank or 0)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} of {world_size} processes: RANK is from 0 to WORLD_SIZE - 1")
    if local_rank is None:
        local_rank = rank % on_node
    for name, value in (("WORLD_SIZE", world_size), ("RANK", rank), ("LOCAL_RANK", local_rank)):
        os.environ.setdefault(name, str(value))
    if world_size == 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
    _setup_module_id(local_rank, world_size)
    return world_size, rank, local_rank


def _setup_module_id(local_rank, world_size):
    """This process's "hpu" is device `local_rank` of those that it sees (HABANA_VISIBLE_MODULES), or the only one."""
    count = torch.hpu.device_count()
    if world_size > 1 and 1 < count <= local_rank:
        raise ValueError(f"local rank {local_rank} has no device: this process sees {count} "
                         f"(HABANA_VISIBLE_MODULES={os.environ.get('HABANA_VISIBLE_MODULES', 'not set')})")
    if count:
        torch.hpu.set_device(local_rank if count > 1 and local_rank < count else 0)
