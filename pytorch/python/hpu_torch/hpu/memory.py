# SPDX-License-Identifier: Apache-2.0
"""Memory of hpu devices: what tensors have, and what is kept for the next ones."""
import torch

from .. import _C
from ._index import index_of

OutOfMemoryError = torch.cuda.OutOfMemoryError  # PyTorch 1.13 has one class for all devices.


def memory_stats(device=None):
    """Under Gaudi's names. Bytes: Limit (HBM of the device), InUse and MaxInUse (of tensors), MaxAllocSize, Reserved and
    MaxReserved (taken from the device), Waiting (freed, and still used by other streams). Numbers: NumAllocs, NumFrees, ActiveAllocs,
    TotalSystemAllocs, TotalSystemFrees, TotalActiveAllocs (segments), NumRetries (the cache was given back for an allocation),
    NumOOMs. Zeros, but for Limit, for a device that is not open."""
    index = index_of(device)
    stats = _C.memory_stats(index)
    return {"Limit": stats.limit or _C.describe_device(index).get("total_memory", 0), "InUse": stats.used, "MaxInUse": stats.used_peak, "NumAllocs": stats.allocations,
            "NumFrees": stats.frees, "ActiveAllocs": stats.active_blocks, "MaxAllocSize": stats.largest,
            "TotalSystemAllocs": stats.device_allocations, "TotalSystemFrees": stats.device_frees,
            "TotalActiveAllocs": stats.active_segments, "Reserved": stats.reserved, "MaxReserved": stats.reserved_peak,
            "Waiting": stats.waiting, "NumRetries": stats.retries, "NumOOMs": stats.failures}


def memory_allocated(device=None):
    """Bytes in tensors."""
    return _C.memory_stats(index_of(device)).used


def max_memory_allocated(device=None):
    return _C.memory_stats(index_of(device)).used_peak


def memory_reserved(device=None):
    """Bytes taken from the device, in tensors or not."""
    return _C.memory_stats(index_of(device)).reserved


def max_memory_reserved(device=None):
    return _C.memory_stats(index_of(device)).reserved_peak


def reset_peak_memory_stats(device=None):
    """Peaks count from what is used now."""
    _C.reset_peak_memory(index_of(device))


def reset_max_memory_allocated(device=None):
    reset_peak_memory_stats(device)


def mem_get_info(device=None):
    """(free, total) bytes of the device, whoever uses it; opens it."""
    return _C.mem_get_info(index_of(device))


def empty_cache(device=None):
    """Gives memory that no tensor is in back to the device."""
    _C.empty_cache(index_of(device))


def memory_snapshot(device=None):
    """The segments taken from the device, each with its blocks."""
    return _C.memory_snapshot(index_of(device))


def memory_summary(device=None, abbreviated=False):
    index = index_of(device)
    stats = memory_stats(index)
    rows = [f"memory of hpu:{index}"]
    for key, value in stats.items():
        is_count = key.startswith("Num") or key in ("ActiveAllocs", "TotalSystemAllocs", "TotalSystemFrees", "TotalActiveAllocs")
        rows.append(f"  {key:<18}{value:>16}" + ("" if is_count else f"  {value / 2**20:12.2f} MiB"))
    if not abbreviated:
        for segment in memory_snapshot(index):
            used = sum(block["size"] for block in segment["blocks"] if block["state"] == "used")
            rows.append(f"  segment {segment['address']:#x} {segment['segment_type']:<5}{segment['total_size']:>12} bytes, "
                        f"{used} in tensors, {len(segment['blocks'])} blocks")
    return "\n".join(rows)
